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
// Paper shows what the screen folds away.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of closed) one.open = false;
});
