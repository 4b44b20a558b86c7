"use strict";
// A click on a title sorts by that column: figures by their values, words by their letters; another click turns it round.
const worth = (row, column) => {
  const cell = row.children[column];
  const value = cell.dataset.value;
  return value === undefined ? cell.textContent.trim() : value === "" ? NaN : Number(value);
};
const before = (a, b) => {
  if (typeof a === "number" && typeof b === "number") {
    return Number.isNaN(a) ? (Number.isNaN(b) ? 0 : 1) : Number.isNaN(b) ? -1 : a - b;
  }
  return String(a).localeCompare(String(b), "en", { numeric: true });
};
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const column = [...head.parentElement.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].sort((a, b) => before(worth(a, column), worth(b, column)));
    body.append(...(down ? rows.reverse() : rows));
  });
}
// Sliders choose a row of a table by its columns, and the rest of that row is shown.
const filled = (tag, text, style) => {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = style;
  return made;
};
for (const form of document.querySelectorAll(".sliders")) {
  const rows = [...document.querySelectorAll(`#${form.dataset.table} tbody tr`)];
  const sliders = [...form.querySelectorAll("input")];
  const titles = sliders.map((slider) => slider.name);
  const [figures, missing] = [form.querySelector("dl"), form.querySelector("p")];
  const show = () => {
    const chosen = sliders.map((slider) => JSON.parse(slider.dataset.values)[slider.value].trim());
    sliders.forEach((slider, i) => {
      slider.nextElementSibling.textContent = chosen[i];
      slider.setAttribute("aria-valuetext", chosen[i]);
    });
    const isChosen = (cell) => {
      const place = titles.indexOf(cell.dataset.label);
      return place < 0 || cell.textContent.trim() === chosen[place];
    };
    const row = rows.find((one) => [...one.cells].every(isChosen));
    const rest = row ? [...row.cells].slice(1).filter((cell) => !titles.includes(cell.dataset.label)) : [];
    figures.replaceChildren(
      ...rest.map((cell) => {
        const figure = filled("div", "", "stat");
        const look = row.classList.contains("bad") ? "big bad" : "big";
        const value = filled("dd", "", look);
        value.append(...[...cell.childNodes].map((node) => node.cloneNode(true)));
        figure.append(filled("dt", cell.dataset.label, ""), value);
        return figure;
      }),
    );
    missing.hidden = row !== undefined;
  };
  for (const slider of sliders) slider.addEventListener("input", show);
  form.hidden = false;
  show();
}
// Paper shows what the screen folds away.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});
