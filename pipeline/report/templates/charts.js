// Charts from the numbers in the page, as wide as there is room. Without this script their pictures are shown.
const SHAPES = {
  o: "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z", s: "M-.9-.9H.9V.9H-.9z", D: "M0-1.2L1.2 0L0 1.2L-1.2 0z",
  "^": "M0-1.1L1 .8H-1z", v: "M0 1.1L1-.8H-1z", P: "M-.4-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4z",
  "*": "M0-1.3L.38-.4L1.24-.4L.6.2L.8 1.1L0 .6L-.8 1.1L-.6.2L-1.24-.4L-.38-.4z",
};
const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const figures = (value) => {
  if (value >= 10000) return `${(value / 1000).toFixed(1)}k`;
  return value >= 10 ? value.toFixed(1) : String(Number(value.toPrecision(3)));
};
const mark = (one, x, y, size) =>
  `<path d="${SHAPES[one.shape] ?? SHAPES.o}" transform="translate(${x} ${y}) scale(${size})" fill="${one.hollow ? "var(--raised)" : one.color}"
   stroke="${one.color}" vector-effect="non-scaling-stroke" stroke-width="1.5" opacity="${one.faint ? 0.45 : 1}"/>`;

// Round numbers between two ends; on a logarithmic axis 1, 2 and 5 times powers of ten.
function ticks(low, high, log, most) {
  if (log) {
    const powers = Array.from({ length: 9 }, (_, power) => 10 ** power);
    return powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((one) => one >= low && one <= high);
  }
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  return Array.from({ length: most + 2 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((one) => one <= high);
}

// A panel as SVG, and where its points are with what they say.
function drawn(panel, width) {
  const [left, right, top, bottom] = [52, 12, 8, 44];
  const height = panel.log ? Math.max(320, width * 0.5) : Math.max(180, Math.min(width * 0.4, 320));
  const all = (key) => panel.series.flatMap((one) => one[key].map((value, i) => [value, one.sd?.[i] ?? 0]));
  const ys = all("y").flatMap(([value, sd]) => [value - sd, value + sd]);
  const xs = all("x").map(([value]) => value);
  const pad = (Math.max(...ys) - Math.min(...ys)) * 0.06 || 1;
  const [yLow, yHigh] = [Math.min(...ys) - pad, Math.max(...ys) + pad];
  const log = panel.log ? Math.log10 : (value) => value;
  const { length, names } = panel.period ?? {};
  const [xLow, xHigh] = length ? [0, length * names.length] : [Math.min(...xs), Math.max(...xs)];
  const slack = (log(xHigh) - log(xLow)) * (length ? 0 : 0.03) || 0.01;
  const x = (value) => left + ((log(value) - log(xLow) + slack) / (log(xHigh) - log(xLow) + 2 * slack)) * (width - left - right);
  const y = (value) => height - bottom - ((value - yLow) / (yHigh - yLow)) * (height - top - bottom);
  const where = (value) => length ? `task ${names[Math.floor(value / length)]}, epoch ${value % length}` : `${panel.x} ${panel.log ? figures(value) : value}`;

  const across = length ? names.map((name, i) => [(i + 0.5) * length, name])
    : ticks(xLow, xHigh, panel.log, 10).filter((one) => panel.log || Number.isInteger(one)).map((one) => [one, panel.log ? `${one / 1000}k` : one]);
  let [svg, free] = ["", -Infinity];
  for (let i = 0; i < (names?.length ?? 0); i += 2) {
    svg += `<rect class="shade" x="${x(i * length)}" width="${x((i + 1) * length) - x(i * length)}" y="${top}" height="${height - top - bottom}"/>`;
  }
  for (const one of ticks(yLow, yHigh, false, 5)) {
    svg += `<path class="rule" d="M${left} ${y(one)}H${width - right}"/><text x="${left - 7}" y="${y(one) + 4}" text-anchor="end">${one >= 1000 ? `${one / 1000}k` : Number(one.toPrecision(6))}</text>`;
  }
  for (const [value, name] of across) {
    if (x(value) - free < 34) continue; // no room for another number
    free = x(value);
    svg += `<text x="${free}" y="${height - bottom + 18}" text-anchor="middle">${name}</text>`;
  }
  svg += `<path class="axis" d="M${left} ${top}V${height - bottom}H${width - right}"/>`;
  svg += `<text x="${(left + width - right) / 2}" y="${height - 8}" text-anchor="middle">${escaped(panel.x)}</text>`;
  const points = [];
  for (const one of panel.series) {
    const at = one.x.map((value, i) => [x(value), y(one.y[i])]);
    if (one.sd) {
      const edge = (sign) => at.map(([across], i) => `${across} ${y(one.y[i] + sign * one.sd[i])}`);
      svg += `<path d="M${[...edge(1), ...edge(-1).reverse()].join("L")}z" fill="${one.color}" opacity="0.16"/>`;
    }
    if (one.line !== false) {
      const broken = (i) => length && (Math.floor(one.x[i] / length) !== Math.floor(one.x[i - 1] / length) || (!one.whole && one.x[i] - one.x[i - 1] > 1));
      const d = at.map(([px, py], i) => i === 0 || broken(i) ? `M${px} ${py}h0` : one.step ? `H${px}V${py}` : `L${px} ${py}`).join("");
      svg += `<path d="${d}" fill="none" stroke="${one.color}" stroke-width="${one.width ?? 2}" stroke-dasharray="${one.dash ?? ""}" stroke-linecap="round"/>`;
    }
    at.forEach(([px, py], i) => {
      if (one.shape && !(one.line !== false && one.x.length > 40)) svg += mark(one, px, py, one.size ?? 3.5);
      const value = `${figures(one.y[i])}${one.sd ? ` ± ${figures(one.sd[i])}` : ""}`;
      if (!one.whole && !one.step) points.push({ px, py, says: `${one.names?.[i] ?? one.name}: ${value} (${where(one.x[i])})` });
    });
  }
  return { svg: `<svg tabindex="0" role="img" aria-label="${escaped(panel.title)}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${svg}<circle class="ring" r="8" hidden/></svg>`, points };
}

// The nearest point says what it is: under the pointer, at a touch, or with the arrow keys.
function answering(place, points) {
  const [svg, tip] = [place.querySelector("svg"), place.querySelector("output")];
  const ring = svg.querySelector(".ring");
  const inOrder = [...points].sort((a, b) => a.px - b.px || a.py - b.py);
  let at = -1;
  const show = (index) => {
    const point = inOrder[(at = index)];
    ring.toggleAttribute("hidden", !point);
    tip.hidden = !point;
    if (!point) return;
    ring.setAttribute("cx", point.px);
    ring.setAttribute("cy", point.py);
    tip.textContent = point.says;
    tip.style.left = `${Math.max(0, Math.min(point.px - tip.offsetWidth / 2, svg.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${point.py - tip.offsetHeight - 14 < 0 ? point.py + 14 : point.py - tip.offsetHeight - 14}px`;
  };
  const far = (point, event) => Math.hypot(point.px - event.offsetX, point.py - event.offsetY);
  const nearest = (event) => {
    const found = inOrder.reduce((best, point, i) => (best < 0 || far(point, event) < far(inOrder[best], event) ? i : best), -1);
    show(found >= 0 && far(inOrder[found], event) < 60 ? found : -1);
  };
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("pointerdown", nearest);
  svg.addEventListener("pointerleave", () => show(-1));
  svg.addEventListener("blur", () => show(-1));
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !inOrder.length) return;
    event.preventDefault();
    show(at < 0 ? 0 : (at + step + inOrder.length) % inOrder.length);
  });
}

for (const [name, chart] of Object.entries(JSON.parse(document.getElementById("charts").textContent))) {
  const place = document.querySelector(`#figure-${name} .chart`);
  if (!chart.options.length) continue;
  const id = `choice-${name}`;
  const options = chart.options.map((one, i) => `<option value="${i}">${escaped(one.name)}</option>`).join("");
  place.innerHTML = `<p class="choose"><label for="${id}">${chart.label}</label> <select id="${id}">${options}</select></p><ul class="legend"></ul><div class="panels"></div>
    <p class="key">Point at a mark to read it, or go from mark to mark with the arrow keys. <button type="button">The figure as it is printed</button></p>`;
  place.hidden = false;
  const picture = place.nextElementSibling;
  picture.hidden = true;
  place.querySelector("button").addEventListener("click", () => picture.click());
  const [select, legend, panels] = ["select", ".legend", ".panels"].map((one) => place.querySelector(one));
  let width = 0;
  const draw = () => {
    width = panels.clientWidth;
    if (!width) return; // folded away
    const chosen = chart.options[select.value].panels;
    const known = new Map(chosen.flatMap((panel) => panel.series).filter((one) => !one.faint).map((one) => [`${one.name}${one.hollow ? ", one layer" : ""}`, one]));
    legend.innerHTML = [...known].map(([text, one]) => `<li><svg width="30" height="14" aria-hidden="true">${one.line === false ? "" : `<path d="M2 7H28" stroke="${one.color}" stroke-width="${one.width ?? 2}" stroke-dasharray="${one.dash ?? ""}"/>`}${one.shape ? mark({ ...one, faint: false }, 15, 7, 4.5) : ""}</svg>${escaped(text)}</li>`).join("");
    const done = chosen.map((panel) => drawn(panel, width));
    panels.innerHTML = done.map((one, i) => `<p class="title">${escaped(chosen[i].title)}</p><div class="panel">${one.svg}<output hidden></output></div>`).join("");
    panels.querySelectorAll(".panel").forEach((panel, i) => answering(panel, done[i].points));
  };
  draw();
  select.addEventListener("change", draw);
  new ResizeObserver(() => requestAnimationFrame(() => panels.clientWidth === width || draw())).observe(place);
}
