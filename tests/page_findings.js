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

addEventListener("load", () => {
  const width = document.documentElement.clientWidth;
  findings.width = width;
  findings.dark = matchMedia("(prefers-color-scheme: dark)").matches;
  findings.background = getComputedStyle(document.body).backgroundColor;

  const images = [...document.images];
  findings.images = images.length;
  findings.broken = images.filter((one) => !(one.complete && one.naturalWidth > 0)).map((one) => one.alt);
  findings.silent = images.filter((one) => !one.alt).length;

  const parts = [...document.querySelectorAll(".claims .more")];
  findings.closed = parts.filter((one) => one.hasAttribute("hidden")).length;
  const toggles = [...document.querySelectorAll(".claims .toggle button")];
  toggles.forEach((one) => click(one));
  findings.opened = parts.filter((one) => !one.hasAttribute("hidden")).length;
  document.querySelectorAll("details").forEach((one) => { one.open = true; });

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
    .filter((one) => !one.closest(".hidden, svg") && one.getBoundingClientRect().right > width + 1)
    .filter((one) => !one.parentElement.closest(".scroll:not(.restack)") && !(width > 704 && one.closest(".scroll")))
    .map((one) => one.outerHTML.slice(0, 90));
  findings.faint = [...document.body.querySelectorAll("*")]
    .filter((one) => !one.closest("script, .hidden, svg") && [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((one) => contrast(one) < 4.5)
    .map((one) => `${contrast(one).toFixed(1)} ${one.outerHTML.slice(0, 90)}`);

  const table = document.querySelector("#table-main ~ .scroll table");
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
  const verdict = document.querySelector(".claims > thead button");
  const claims = () => text(document.querySelectorAll(".claims > tbody > tr:first-child > td:first-child > .chip"));
  click(verdict);
  findings.verdicts = claims();
  findings.together = [...document.querySelectorAll(".claims > tbody")].every((one) => one.querySelector(".more blockquote"));
  click(verdict, 2);

  toggles.forEach((one) => click(one));
  const part = document.querySelector(".claims tr[id]");
  addEventListener("hashchange", () => {
    findings.followed = !part.closest(".more").hasAttribute("hidden");
    location.hash = "";
    scrollTo(0, 0);
    parent.postMessage(JSON.stringify(findings), "*");
  }, { once: true });
  location.hash = part.id;
});
