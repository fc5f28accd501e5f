"use strict";
// A click on a column's head sorts by it; a second click turns the order round. Cells without a value stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((h) => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [row.cells[column].dataset.key ?? row.cells[column].textContent, row]);
    const numeric = keyed.every(([key]) => key === "" || Number.isFinite(Number(key)));
    keyed.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = numeric ? Number(a) - Number(b) : a.localeCompare(b);
      return down ? -order : order;
    });
    body.append(...keyed.map(([, row]) => row));
  }));
}
// The filter hides studies whose name, title and theme lack one of its words.
const filter = document.getElementById("filter");
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  filter.closest("nav").classList.toggle("looking", words.length > 0);
  for (const part of document.querySelectorAll("[data-words]")) {
    const text = part.dataset.words.toLowerCase();
    part.classList.toggle("hidden", !words.every((word) => text.includes(word)));
  }
});
// Buttons that show or hide the claims of a verdict.
for (const button of document.querySelectorAll("button[data-verdict]")) {
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const claim of document.querySelectorAll("ol.claims > li")) {
      if (claim.dataset.verdict === button.dataset.verdict) claim.classList.toggle("hidden", !shown);
    }
  });
}
