// Without this script the tables are as printed, every claim is open, and all readings are shown one after another.

// Sorting by a column: ascending, descending, as printed. A claim moves with its parts: it is a body of its own.
for (const table of document.querySelectorAll("table.sortable")) {
  const many = table.tBodies.length > 1;
  const place = many ? table : table.tBodies[0];
  const printed = many ? [...table.tBodies] : [...place.rows];
  const key = (item, column) => {
    const cell = (many ? item.rows[0] : item).cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    return text === "" || isNaN(text) ? text : Number(text);
  };
  const compare = (a, b, sign) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // what is missing comes last either way
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const heads = table.querySelectorAll(":scope > thead th[data-sort]");
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = { ascending: "descending", descending: "" }[head.getAttribute("aria-sort")] ?? "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      if (order) head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      const at = head.cellIndex;
      place.append(...(order ? [...printed].sort((a, b) => compare(key(a, at), key(b, at), sign)) : printed));
    });
  }
}

// A claim opens at a click, when a part of it is linked to, or when the browser finds a word in it.
for (const claim of document.querySelectorAll(".claims > tbody")) {
  const head = claim.querySelector(".toggle");
  const more = claim.querySelector(".more");
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  const open = (yes) => {
    if (yes) more.removeAttribute("hidden");
    else more.setAttribute("hidden", "until-found");
    button.setAttribute("aria-expanded", yes);
  };
  open(false);
  button.addEventListener("click", () => open(more.hasAttribute("hidden")));
  more.addEventListener("beforematch", () => open(true));
  claim.addEventListener("open-claim", () => open(true));
}
// One reading at a time: chosen in the list, in the head of the grid, or by a link.
const readings = [...document.querySelectorAll(".reading")];
const choice = document.getElementById("choice");
const choose = (name) => {
  for (const view of readings) view.hidden = view.dataset.reading !== name;
  for (const cell of document.querySelectorAll(".grid [data-reading]")) {
    cell.classList.toggle("chosen", cell.dataset.reading === name);
  }
  choice.value = name;
  document.getElementById("chosen-reading").textContent = `${choice.selectedOptions[0].textContent} is shown below`;
};
if (choice) {
  document.getElementById("choose").hidden = false;
  choose(readings[0].dataset.reading);
  choice.addEventListener("change", () => choose(choice.value));
  for (const head of document.querySelectorAll(".grid thead [data-reading]")) {
    head.querySelector("a").addEventListener("click", () => choose(head.dataset.reading));
  }
}

// What a link leads to is unfolded, also by a second click on the same link.
const follow = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const own = target?.querySelector(":scope > details");
  for (let fold = own ?? target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const reading = target?.closest(".reading");
  if (reading) {
    choose(reading.dataset.reading);
    target.scrollIntoView();
  }
  const claim = target?.closest(".claims > tbody[id]");
  if (!claim) return;
  claim.dispatchEvent(new Event("open-claim"));
  target.scrollIntoView();
};
addEventListener("hashchange", follow);
addEventListener("click", (event) => {
  if (event.target.closest('a[href^="#"]')?.hash === location.hash) follow();
});
follow();

// The contents bar marks the section that is being read.
const contents = document.querySelector("nav ul");
const inSight = new Set();
const sections = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) inSight[isIntersecting ? "add" : "delete"](`#${target.id}`);
  const links = [...contents.querySelectorAll("a")];
  const current = links.filter((one) => inSight.has(one.hash)).at(-1);
  for (const link of links) link.removeAttribute("aria-current");
  current?.setAttribute("aria-current", "true");
  if (current) contents.scrollLeft = current.offsetLeft - 60;
}, { rootMargin: "-15% 0px -84% 0px" });
for (const one of document.querySelectorAll("header, main > section")) sections.observe(one);

// A picture opens at full size.
const full = document.getElementById("full");
full.querySelector("button").addEventListener("click", () => full.close());
for (const link of document.querySelectorAll(".picture")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    full.querySelector("div").replaceChildren(link.firstElementChild.cloneNode());
    full.showModal();
  });
}
