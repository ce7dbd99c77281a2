// The knowledge graph: concepts repel each other, relations attract them; the list beside it links to each concept.

const place = document.getElementById("drawing");
const { nodes, edges } = JSON.parse(place.dataset.graph);
const svg = place.querySelector("svg");
const space = "http://www.w3.org/2000/svg";
const WIDTH = 900;
const HEIGHT = 620;

function make(name, attributes, parent) {
  const element = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}

function settle() {
  // The layout is deterministic: concepts start on a spiral.
  const count = nodes.length;
  const ideal = Math.sqrt((WIDTH * HEIGHT) / Math.max(count, 4)) * 0.75;
  nodes.forEach((node, at) => {
    const angle = at * 2.399963;
    const radius = 14 * Math.sqrt(at + 0.5);
    node.x = radius * Math.cos(angle);
    node.y = radius * Math.sin(angle);
  });
  const reach = (3 * ideal) ** 2;
  const home = 0.4 + count * 0.06;
  let heat = ideal;
  const steps = count > 150 ? 150 : 300;
  for (let step = 0; step < steps; step += 1) {
    for (const node of nodes) node.dx = node.dy = 0;
    for (let i = 0; i < count; i += 1) {
      for (let j = i + 1; j < count; j += 1) {
        const [one, other] = [nodes[i], nodes[j]];
        const x = one.x - other.x || 0.01 * (i - j);
        const y = one.y - other.y || 0.01;
        const far = x * x + y * y;
        if (far > reach) continue; // so that unconnected parts stay near each other
        const push = (ideal * ideal) / far;
        one.dx += x * push;
        one.dy += y * push;
        other.dx -= x * push;
        other.dy -= y * push;
      }
    }
    for (const edge of edges) {
      const [one, other] = [nodes[edge.from], nodes[edge.to]];
      const x = one.x - other.x;
      const y = one.y - other.y;
      const pull = Math.hypot(x, y) / ideal;
      one.dx -= x * pull;
      one.dy -= y * pull;
      other.dx += x * pull;
      other.dy += y * pull;
    }
    for (const node of nodes) {
      node.dx -= node.x * home;
      node.dy -= node.y * home;
      const length = Math.hypot(node.dx, node.dy) || 1;
      node.x += (node.dx / length) * Math.min(length, heat);
      node.y += (node.dy / length) * Math.min(length, heat);
    }
    heat *= 0.975;
  }
}

function fit() {
  // Use the pixels of the page as units, so that names have the same size as other text.
  const width = place.clientWidth - 8 || WIDTH;
  const height = svg.clientHeight || HEIGHT;
  const span = (values, size, pad) => {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const scale = Math.min(2.5, (size - 2 * pad) / Math.max(most - least, 1));
    return (value) => size / 2 + (value - (least + most) / 2) * scale;
  };
  const across = span(nodes.map((node) => node.x), width, Math.min(70, width / 6));
  const down = span(nodes.map((node) => node.y), height, 36);
  for (const node of nodes) [node.x, node.y] = [across(node.x), down(node.y)];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
}

function short(name, most) {
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function draw() {
  const tip = make("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, make("defs", {}, svg));
  make("path", { d: "M0 1 7 4 0 7z", class: "tip" }, tip);
  const lines = make("g", {}, svg);
  const dots = make("g", {}, svg);
  const few = edges.length <= 40 && place.clientWidth > 600;
  for (const edge of edges) {
    const [one, other] = [nodes[edge.from], nodes[edge.to]];
    const apart = Math.hypot(other.x - one.x, other.y - one.y) || 1;
    const back = radius(other) / apart;
    edge.line = make("line", { x1: one.x, y1: one.y, x2: other.x - (other.x - one.x) * back, y2: other.y - (other.y - one.y) * back, "marker-end": "url(#tip)" }, lines);
    make("title", {}, edge.line).textContent = `${one.name} ${edge.name} ${other.name}`;
    if (few && edge.from !== edge.to) {
      const label = make("text", { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 - 3, class: "relation" }, lines);
      label.textContent = short(edge.name, 22);
      edge.label = label;
    }
  }
  nodes.forEach((node, at) => {
    const url = new URL(place.dataset.around, location.href);
    url.searchParams.set("around", node.name);
    const link = make("a", { href: url.pathname + url.search, tabindex: -1, "data-node": at }, dots);
    make("circle", { cx: node.x, cy: node.y, r: radius(node) }, link);
    const label = make("text", { x: node.x, y: node.y + radius(node) + 13 }, link);
    label.textContent = short(node.name, 26);
    make("title", {}, link).textContent = node.name;
    node.link = link;
  });
}

// A name that would overlap another one is shown only on hover; concepts with most relations come first.
function tidy() {
  const taken = [];
  const order = [...nodes].sort((one, other) => other.edges - one.edges);
  for (const node of order) {
    const half = Math.min(node.name.length, 26) * 3.1;
    const box = [node.x - half, node.y + radius(node) + 4, node.x + half, node.y + radius(node) + 16];
    const covers = taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
    node.link.classList.toggle("crowded", covers);
    if (!covers) taken.push(box);
  }
}

function radius(node) {
  return 6 + Math.min(14, 2.2 * Math.sqrt(node.edges));
}

function point(at) {
  const near = new Set([at]);
  for (const edge of edges) {
    const touches = at !== null && (edge.from === at || edge.to === at);
    edge.line.classList.toggle("near", touches);
    edge.label?.classList.toggle("near", touches);
    if (touches) near.add(edge.from).add(edge.to);
  }
  nodes.forEach((node, number) => {
    node.link.classList.toggle("far", at !== null && !near.has(number));
    node.link.classList.toggle("here", number === at);
    node.link.classList.toggle("beside", at !== null && near.has(number));
  });
  svg.classList.toggle("pointed", at !== null);
}

function follow(element) {
  const at = () => Number(element.dataset.node);
  element.addEventListener("focus", () => point(at()));
  element.addEventListener("blur", () => point(null));
  element.addEventListener("mouseenter", () => point(at()));
  element.addEventListener("mouseleave", () => point(null));
}

settle();
fit();
draw();
tidy();
document.querySelectorAll("[data-node]").forEach(follow);
place.dataset.drawn = "yes";
