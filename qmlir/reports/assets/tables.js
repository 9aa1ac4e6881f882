// Tables that a click on a heading sorts.

/**
 * Fills a table.
 *
 * columns: [{title, value(row) → what to sort by, text(row) → text or element, number: aligned right, class}]
 * options: {rows, pick(row): called when a row is clicked, sort: {column, down}}
 */
function sortable(table, columns, options) {
  const state = { column: null, down: false, ...options.sort };
  let rows = options.rows;
  const body = element("tbody");
  const heads = columns.map((column, index) => {
    const button = element("button", { type: "button", onclick: () => turn(index) }, column.title);
    return element("th", { class: [column.number && "number", column.class].filter(Boolean).join(" ") || null, scope: "col" }, button);
  });
  table.replaceChildren(element("thead", {}, element("tr", {}, ...heads)), body);

  function turn(index) {
    state.down = state.column === index ? !state.down : Boolean(columns[index].down);
    state.column = index;
    show();
  }

  function show() {
    const shown = [...rows];
    if (state.column !== null) {
      const value = columns[state.column].value;
      shown.sort((a, b) => compare(value(a), value(b), state.down));
    }
    heads.forEach((head, index) => {
      const sorted = index === state.column;
      head.setAttribute("aria-sort", sorted ? (state.down ? "descending" : "ascending") : "none");
      head.firstChild.textContent = columns[index].title + (sorted ? (state.down ? " ▾" : " ▴") : "");
    });
    body.replaceChildren(...shown.map(line));
  }

  function line(row) {
    const cells = columns.map((column) => {
      const classes = [column.number && "number", column.class].filter(Boolean).join(" ") || null;
      return element("td", { class: classes }, column.text(row));
    });
    if (!options.pick) return element("tr", {}, ...cells);
    return element("tr", { class: "pick", "data-row": String(row), onclick: () => options.pick(row) }, ...cells);
  }

  show();
  return {
    rows(some) {
      rows = some;
      show();
    },
  };
}

/** Unknown values come last, whichever way the table is sorted. */
function compare(a, b, down) {
  const [left, right] = [real(a), real(b)];
  const unknown = (value) => value === null || value === undefined || value === "";
  if (unknown(left) || unknown(right)) return unknown(left) - unknown(right);
  const order = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
  return down ? -order : order;
}
