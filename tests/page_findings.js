// Injected into a copy of the page: what a reader would see, sent to the window around it.
const findings = { errors: [] };
addEventListener("error", (event) => findings.errors.push(String(event.message)));
const log = console.error;
console.error = (...words) => (findings.errors.push(words.join(" ")), log(...words));

const text = (nodes) => [...nodes].map((node) => node.textContent.trim());
const click = (node, times = 1) => { for (let i = 0; i < times; i++) node.click(); };

function contrast(node) {
  const channel = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => 0.2126 * channel(rgb[0]) + 0.7152 * channel(rgb[1]) + 0.0722 * channel(rgb[2]);
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  let behind = node;
  while (behind && (numbers(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
  const [a, b] = [getComputedStyle(node).color, behind ? getComputedStyle(behind).backgroundColor : "rgb(255,255,255)"];
  const [x, y] = [light(numbers(a)), light(numbers(b))];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

addEventListener("load", async () => {
  const width = document.documentElement.clientWidth;
  findings.width = width;
  findings.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  findings.background = getComputedStyle(document.body).backgroundColor;

  const images = [...document.images];
  findings.images = images.length;
  findings.broken = images.filter((one) => !(one.complete && one.naturalWidth > 0)).map((one) => one.alt);
  findings.silent = images.filter((one) => !one.alt).length;

  findings.height = document.documentElement.scrollHeight;
  findings.folded = [...document.querySelectorAll("main > section > details:not([open])")].map((one) => one.parentElement.id);
  const nav = document.querySelector("nav");
  findings.first = document.querySelector(".answer").getBoundingClientRect().bottom < 900;
  scrollTo(0, 3000);
  findings.bar = nav.getBoundingClientRect().top;
  scrollTo(0, 0);

  const parts = [...document.querySelectorAll(".claims .more")];
  findings.closed = parts.filter((one) => one.hasAttribute("hidden")).length;
  const toggles = [...document.querySelectorAll(".claims .toggle button")];
  toggles.forEach((one) => click(one));
  findings.opened = parts.filter((one) => !one.hasAttribute("hidden")).length;
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  await new Promise((done) => setTimeout(done, 500)); // charts are drawn where they can be seen
  findings.charts = [...document.querySelectorAll(".chart")].filter((one) => !one.hidden).map((one) => one.closest("figure").id);
  findings.shown = images.filter((one) => one.getClientRects().length).map((one) => {
    const frame = one.parentElement;
    return { drawn: one.clientWidth, room: frame.clientWidth - 24, scrolls: frame.scrollWidth > frame.clientWidth };
  });
  const dialog = document.getElementById("full");
  click(document.querySelector(".picture:not([hidden])"));
  findings.full = dialog.open && dialog.querySelector("img").clientWidth;
  click(dialog.querySelector("button"));
  findings.again = dialog.open;

  const choice = document.getElementById("choice");
  const shown = () => [...document.querySelectorAll(".reading")].filter((one) => one.getClientRects().length);
  const pick = (name) => { choice.value = name; choice.dispatchEvent(new Event("change")); };
  const options = [...choice.options].map((option) => option.value);
  findings.readings = options.map((name) => {
    pick(name);
    const [view] = shown();
    return {
      name,
      shown: shown().map((one) => one.dataset.reading),
      says: document.getElementById("chosen-reading").textContent,
      chosen: document.querySelectorAll(".grid td.chosen").length,
      noracl: text(view.querySelectorAll("table.sticky")[0]?.querySelectorAll("tbody tr:last-child td") ?? []),
      chips: text(view.querySelectorAll(".verdicts .chip")),
      words: view.textContent,
    };
  });
  const link = document.querySelector(`.grid thead [data-reading="${options[0]}"] a`);
  link.addEventListener("click", (event) => event.preventDefault(), { once: true });
  click(link);
  findings.linked = shown().map((one) => one.dataset.reading);
  choice.focus();
  findings.reached = document.activeElement === choice && choice.labels.length === 1;
  pick(options.find((name) => name !== options[0] && document.querySelector(`#reading-${name} table`)) ?? options[0]);

  findings.page = document.documentElement.scrollWidth;
  findings.wide = [...document.body.querySelectorAll("*")]
    .filter((one) => !one.closest(".hidden, svg, nav ul, .picture") && one.getBoundingClientRect().right > width + 1)
    .filter((one) => !one.parentElement.closest(".scroll:not(.restack)") && !(width > 704 && one.closest(".scroll")))
    .map((one) => one.outerHTML.slice(0, 90));
  findings.faint = [...document.body.querySelectorAll("*")]
    .filter((one) => !one.closest("script, .hidden, svg") && [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((one) => contrast(one) < 4.5)
    .map((one) => `${contrast(one).toFixed(1)} ${one.outerHTML.slice(0, 90)}`);

  const table = document.querySelector("#table-main .scroll table");
  const last = table.querySelector("thead tr:last-child th:last-child button");
  const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[row.cells.length - 1].dataset.value));
  findings.sorted = { printed: column() };
  last.focus();
  findings.focus = document.activeElement === last;
  for (const order of ["ascending", "descending", "again"]) {
    click(last);
    findings.sorted[order] = column();
    findings.sorted[`${order}_says`] = last.parentElement.getAttribute("aria-sort");
  }
  const verdict = document.querySelector("#claims .claims > thead button");
  const claims = () => text(document.querySelectorAll("#claims .claims > tbody > tr:first-child > td:first-child > .chip"));
  click(verdict);
  findings.verdicts = claims();
  findings.together = [...document.querySelectorAll(".claims > tbody")].every((one) => one.querySelector(".more .id"));
  click(verdict, 2);

  const chart = document.querySelector("#figure-timeline .chart");
  const lines = () => chart?.querySelector(".panel svg").innerHTML;
  const before = lines();
  if (chart) {
    const seed = chart.querySelector("select");
    seed.value = seed.options.length - 1;
    seed.dispatchEvent(new Event("change"));
  }
  findings.redrawn = lines() !== before;
  findings.tips = [...document.querySelectorAll(".chart")].filter((one) => !one.hidden).map((one) => {
    const svg = one.querySelector(".panel svg");
    svg.focus();
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
    const tip = one.querySelector(".panel output");
    const box = tip.getBoundingClientRect();
    return { says: tip.textContent, inside: !tip.hidden && box.left >= 0 && box.right <= width, wide: svg.clientWidth };
  });
  document.activeElement.blur();

  toggles.forEach((one) => click(one));
  const part = document.querySelector(".claims tr[id]");
  document.querySelectorAll("details").forEach((one) => { one.open = false; });
  addEventListener("hashchange", () => {
    findings.followed = !part.closest(".more").hasAttribute("hidden") && part.closest("details").open;
    location.hash = "";
    scrollTo(0, 0);
    parent.postMessage(JSON.stringify(findings), "*");
  }, { once: true });
  location.hash = part.id;
});
