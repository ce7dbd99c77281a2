// Draw the charts of a page in its colours; without plotly the tables stay.

const names = ["--series-1", "--series-2", "--series-3"];

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faded(colour) {
  return `${colour}33`;
}

function series(chart) {
  const many = chart.lines.length;
  return chart.lines.flatMap((line, at) => {
    const colour = style(names[at % names.length]);
    if (chart.kind === "bar") return [{ type: "bar", name: line.name, x: chart.x, y: line.y, marker: { color: colour } }];
    if (chart.kind === "interval") return [points(chart, line, colour, (at - (many - 1) / 2) * 0.3)];
    const found = [];
    if (line.low.length) found.push(...band(chart, line, colour));
    const area = chart.kind === "area" && at === 0;
    if (chart.kind === "area" && at > 0) return []; // shown only in the table
    found.push({
      type: "scatter",
      mode: chart.x.length < 40 ? "lines+markers" : "lines",
      name: line.name,
      x: chart.x,
      y: line.y,
      connectgaps: true,
      line: { color: colour, width: 2 },
      marker: { size: 5 },
      fill: area ? "tozeroy" : "none",
      fillcolor: faded(colour),
    });
    return found;
  });
}

function points(chart, line, colour, beside) {
  return {
    type: "scatter",
    mode: "markers",
    name: line.name,
    x: line.y,
    y: chart.x.map((_, at) => at + beside),
    text: chart.x,
    hovertemplate: "%{text}: %{x:.0%}<extra></extra>",
    marker: { color: colour, size: 8 },
    error_x: {
      type: "data",
      symmetric: false,
      array: line.y.map((value, at) => (value === null ? null : line.high[at] - value)),
      arrayminus: line.y.map((value, at) => (value === null ? null : value - line.low[at])),
      color: colour,
      thickness: 1.5,
      width: 4,
    },
  };
}

function band(chart, line, colour) {
  const kept = chart.x.map((x, at) => at).filter((at) => line.low[at] !== null);
  const common = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
  const x = kept.map((at) => chart.x[at]);
  return [
    { ...common, x, y: kept.map((at) => line.low[at]) },
    { ...common, x, y: kept.map((at) => line.high[at]), fill: "tonexty", fillcolor: faded(colour) },
  ];
}

function short(name) {
  return name.length > 28 ? `${name.slice(0, 27)}…` : name;
}

function plain(text) {
  // Plotly interprets some tags in texts; escape names so that they are shown verbatim.
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

function layout(chart) {
  const share = { tickformat: ".0%", range: [0, 1.02] };
  const lines = { gridcolor: style("--line"), zerolinecolor: style("--line"), linecolor: style("--line"), fixedrange: true };
  const across = chart.kind === "interval";
  const several = chart.lines.length > 1 && chart.kind !== "area";
  const few = !chart.share && Math.max(...chart.lines[0].y) <= 5 ? { dtick: 1 } : {};
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: style("--font"), size: 12, color: style("--dim") },
    margin: { l: across ? 10 : 48, r: 20, t: 8, b: several ? 68 : 44 },
    height: across ? Math.max(160, 60 + 30 * chart.x.length) : 240,
    showlegend: several,
    legend: { orientation: "h", y: -0.24, x: 0, yanchor: "top" },
    hovermode: across ? "closest" : "x unified",
    hoverlabel: { bgcolor: style("--card"), font: { color: style("--text") }, bordercolor: style("--line") },
    xaxis: { ...lines, ...(across ? share : days(chart.x)) },
    yaxis: across
      ? { ...lines, automargin: true, range: [chart.x.length - 0.5, -0.5], tickvals: chart.x.map((_, at) => at), ticktext: chart.x }
      : { ...lines, rangemode: "tozero", ...few, ...(chart.share ? share : {}) },
    bargap: chart.x.length > 6 ? 0.2 : 0.6,
  };
}

// Label a few days one by one, many on a scale.
function days(x) {
  if (x.length > 6) return { type: "date", tickangle: 0, nticks: 4, tickformat: "%b %-d\n%Y" };
  const named = (day) => new Date(day).toLocaleDateString("en", { day: "numeric", month: "short", timeZone: "UTC" });
  return { type: "category", tickangle: 0, tickvals: x, ticktext: x.map(named) };
}

function escaped(chart) {
  return { ...chart, x: chart.x.map((name) => plain(short(name))), lines: chart.lines.map((line) => ({ ...line, name: plain(line.name) })) };
}

async function draw() {
  if (!window.Plotly) return;
  for (const place of document.querySelectorAll(".plot[data-chart]")) {
    const chart = escaped(JSON.parse(place.dataset.chart));
    place.hidden = false;
    await window.Plotly.react(place, series(chart), layout(chart), { displayModeBar: false, responsive: true });
    const values = place.parentElement.querySelector("details.values");
    if (values && !place.dataset.drawn) values.open = false;
    place.dataset.drawn = "yes";
  }
  document.documentElement.dataset.charts = "drawn";
}

document.addEventListener("engram:theme", draw);
document.addEventListener("engram:fresh", draw);
draw();
