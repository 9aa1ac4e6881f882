// The plots: bokeh draws them from the data that Python made; their colours follow the page's.

const plotted = [];

/** Draws a figure into an element; returns a promise of bokeh's model of it. */
async function plot(item, target, onTap) {
  const copy = structuredClone(item);
  const views = await Bokeh.embed.embed_item(copy, target);
  const figure = views.roots[0].model;
  plotted.push(figure);
  paint(figure);
  if (onTap) {
    for (const source of figure.references()) {
      if (source.type !== "ColumnDataSource" || !source.data.row) continue;
      source.selected.change.connect(() => {
        const [index] = source.selected.indices;
        if (index !== undefined) {
          source.selected.indices = [];
          onTap(source.data.row[index]);
        }
      });
    }
  }
  return figure;
}

/** The colours of plots.py on light ground → the same hues, light enough to be read on dark ground. */
const ON_DARK = { "#8a8f98": "#aab2bf", "#0072b2": "#56b0ea", "#d55e00": "#ff9a57", "#cc3311": "#ff7a59" };
const ON_LIGHT = Object.fromEntries(Object.entries(ON_DARK).map(([light, dark]) => [dark, light]));

/** Gives a figure's axes, grid, legend and marks the colours of the page. */
function paint(figure) {
  const hues = document.documentElement.dataset.theme === "dark" ? ON_DARK : ON_LIGHT;
  const style = getComputedStyle(document.documentElement);
  const [ink, soft, grid] = ["--ink", "--soft", "--grid"].map((name) => style.getPropertyValue(name).trim());
  for (const model of figure.references()) {
    for (const part of ["fill_color", "line_color"]) {
      const hue = hues[model[part]?.value ?? model[part]];
      if (hue) model[part] = typeof model[part] === "string" ? hue : { value: hue };
    }
    if (/Axis$/.test(model.type)) {
      model.setv({
        axis_line_color: soft, major_tick_line_color: soft, axis_label_text_color: soft, major_label_text_color: soft,
      });
    } else if (model.type === "Grid" && model.grid_line_color !== null) model.grid_line_color = grid;
    else if (model.type === "Legend") model.setv({ label_text_color: ink, inactive_fill_color: grid, inactive_fill_alpha: 0.6 });
  }
}

const named = (figure, name) => [...figure.references()].find((model) => model.name === name);

/** Shows a distribution, and the thresholds of the integers that store it, in a figure of Python's `histogram`. */
function fill(figure, tensor) {
  const { low, width, counts } = tensor.histogram;
  const kept = counts.map((count, index) => [count, index]).filter(([count]) => count > 0);
  const left = kept.map(([, index]) => low + index * width);
  named(figure, "bars").data = {
    left, right: left.map((x) => x + width), top: kept.map(([count]) => count), width: left.map(() => width),
  };
  const ends = tensor.quantized ? [tensor.low, tensor.high] : [];
  named(figure, "thresholds").data = { x: ends };
  const from = Math.min(left[0] ?? 0, ...ends), to = Math.max((left.at(-1) ?? 1) + width, ...ends);
  const margin = 0.03 * (to - from || 1);
  figure.x_range.setv({ start: from - margin, end: to + margin });
  figure.y_range.setv({ start: 0.5, end: 2 * Math.max(1, ...counts) });
}
