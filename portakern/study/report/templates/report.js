"use strict";
// Sorts, filters, chooses and unpacks. Everything is in the page without it.
(() => {
  const one = (query, within = document) => within.querySelector(query);
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  const table = one("#table");
  const rows = all("tbody", table);
  const marks = new Map(rows.map(row => [row.dataset.row, []]));
  all(".plot g[data-row]").forEach(mark => marks.get(mark.dataset.row)?.push(mark));
  const marksOf = number => marks.get(number);

  // ---- sorting: rows without a value stay at the end, whichever way
  const heads = all("th[data-sort]", table);
  const select = one("#sort"), direction = one("#direction");
  const value = (row, key) => {
    const text = row.dataset[key];
    if (text === undefined || text === "") return null;
    return key === "target" ? text : Number(text);
  };
  const sort = (key, down) => {
    const order = (a, b) => {
      const x = value(a, key), y = value(b, key);
      if (x === null || y === null) return (x === null) - (y === null) || a.dataset.number - b.dataset.number;
      const by = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return (down ? -by : by) || a.dataset.number - b.dataset.number;
    };
    table.append(...[...rows].sort(order));
    heads.forEach(h => {
      if (h.dataset.sort === key) h.setAttribute("aria-sort", down ? "descending" : "ascending");
      else h.removeAttribute("aria-sort");
    });
    select.value = key;
    direction.setAttribute("aria-pressed", down);
  };
  const down = () => direction.getAttribute("aria-pressed") === "true";
  heads.forEach(h => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = h.textContent;
    h.replaceChildren(button);
    button.addEventListener("click", () => sort(h.dataset.sort, h.getAttribute("aria-sort") === "ascending"));
  });
  select.addEventListener("change", () => sort(select.value, down()));
  direction.addEventListener("click", () => sort(select.value, !down()));

  // ---- filtering: what is not shown in the table is faint in the plots
  const filter = one("#filter"), count = one("#count"), levels = all("input[name=level]");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(levels.filter(l => l.checked).map(l => l.value));
    let shown = 0;
    for (const row of rows) {
      const fits = words.every(w => row.dataset.text.includes(w)) && (!levels.length || wanted.has(row.dataset.levelName));
      row.hidden = !fits;
      shown += fits;
      marksOf(row.dataset.row).forEach(m => m.classList.toggle("off", !fits));
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  filter.addEventListener("input", apply);
  levels.forEach(l => l.addEventListener("change", apply));
  one("#tools").addEventListener("submit", e => e.preventDefault());
  one("#tools").hidden = false;
  apply();

  // ---- plots and rows point at each other
  rows.forEach(row => {
    const heat = on => () => marksOf(row.dataset.row).forEach(m => m.classList.toggle("hot", on));
    row.addEventListener("mouseenter", heat(true));
    row.addEventListener("mouseleave", heat(false));
  });
  all(".plot g[data-row]").forEach(mark => mark.addEventListener("click", () => {
    const row = one(`#row-${mark.dataset.row}`);
    rows.forEach(r => r.classList.toggle("found", r === row));
    row.scrollIntoView({ block: "center" });
  }));
  window.addEventListener("beforeprint", () => all(".more details, .from").forEach(d => { d.open = true; }));

  // ---- two sources side by side
  const listings = all(".listing");
  if (!listings.length) return;
  const left = one("#left"), right = one("#right"), panel = one("#listings");
  const choose = () => {
    const chosen = [left.value, right.value];
    listings.forEach(l => { l.hidden = !chosen.includes(l.dataset.listing); l.style.order = chosen.indexOf(l.dataset.listing); });
  };
  [left, right].forEach(s => s.addEventListener("change", () => { choose(); reveal(); }));
  one("#choice").addEventListener("submit", e => e.preventDefault());
  one("#choice").hidden = false;
  choose();
  const under = one("#under");
  if (under) under.addEventListener("change", () => panel.classList.toggle("under", under.checked));

  // ---- the same tile operation in both
  const ties = all("#ties button"), origin = one("#origin");
  const lines = all(".l[data-o]").map(line => [line, new Set(line.dataset.o.split(" "))]);
  const pressed = () => ties.find(t => t.getAttribute("aria-pressed") === "true");
  const reveal = () => {
    const tie = pressed();
    lines.forEach(([line, of]) => line.classList.toggle("lit", !!tie && of.has(tie.dataset.tie)));
    if (!tie) return;
    listings.filter(l => !l.hidden).forEach(l => {
      const first = one(".l.lit", l), code = one(".code", l);
      if (first) code.scrollTop = first.offsetTop - code.clientHeight / 3;
    });
    if (origin) origin.textContent = tie.dataset.line ? `From the operator's line: ${tie.dataset.line}` : "";
  };
  const press = tie => {
    ties.forEach(t => t.setAttribute("aria-pressed", t === tie && t.getAttribute("aria-pressed") !== "true"));
    reveal();
  };
  ties.forEach(tie => tie.addEventListener("click", () => press(tie)));
  lines.forEach(([line, of]) => {
    const near = on => () => lines.forEach(([l, o]) => l.classList.toggle("near", on && [...of].some(n => o.has(n))));
    line.addEventListener("mouseenter", near(true));
    line.addEventListener("mouseleave", near(false));
    line.addEventListener("click", () => {
      if (!getSelection().isCollapsed) return;
      const tie = ties.find(t => of.has(t.dataset.tie));
      if (tie) press(tie);
    });
  });

  // ---- assembly, which is packed
  const unpack = async text => {
    const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  all("details.assembly").forEach(d => d.addEventListener("toggle", async () => {
    if (!d.open || !d.dataset.gz) return;
    one("pre", d).textContent = await unpack(d.dataset.gz);
    delete d.dataset.gz;
  }));
})();
