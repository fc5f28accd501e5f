"use strict";
// A click on a column's head sorts by it; a second click reverses the order. Cells without a value stay last.
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
  for (const part of document.querySelectorAll("[data-search]")) {
    const text = part.dataset.search.toLowerCase();
    part.classList.toggle("hidden", !words.every((word) => text.includes(word)));
  }
});
// A link to something that is folded away opens it.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (const part of [target?.querySelector(":scope > details.body, :scope:is(li) > details"), ...parents(target)]) if (part) part.open = true;
  target?.scrollIntoView();
};
const parents = (element) => {
  const found = [];
  for (let part = element; part; part = part.parentElement) if (part.tagName === "DETAILS") found.push(part);
  return found;
};
addEventListener("hashchange", unfold);
if (location.hash) unfold();
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

const button = (text, title, act) => {
  const element = document.createElement("button");
  element.type = "button";
  element.className = "tool";
  element.textContent = text;
  element.title = title;
  element.addEventListener("click", () => act(element));
  return element;
};
// Below each table a button that saves it as CSV, at full precision.
for (const data of document.querySelectorAll("template.csv")) {
  data.after(button("CSV", `save ${data.dataset.file}`, () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", data.content.textContent], { type: "text/csv;charset=utf-8" }));
    link.download = data.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }));
}
// Beside each command a button that copies it; where the browser forbids the clipboard, the command is selected.
const select = (element) => getSelection().selectAllChildren(element);
for (const command of document.querySelectorAll("code.command")) {
  command.after(button("copy", "copy the command", async (element) => {
    try {
      await navigator.clipboard.writeText(command.textContent);
    } catch {
      select(command);
      if (!document.execCommand("copy")) return;
      getSelection().removeAllRanges();
    }
    element.textContent = "copied";
    setTimeout(() => { element.textContent = "copy"; }, 1500);
  }));
}
