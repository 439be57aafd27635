// What a reader would find wrong with a page, as sentences; an empty list is a page that is right.
// Nothing is changed but that everything folded is unfolded: a figure is judged as it looks when it is shown.

const CONTRAST_MIN = 4.5;
// Letters fill about seven tenths of their line, so that lines may share this part of it unseen.
const SHARED_MAX = 0.2;

const words = (element) => JSON.stringify(element.textContent.trim().slice(0, 40));

function missingFigures(ids) {
  return ids.flatMap((id) => {
    const figure = document.getElementById(id);
    const pictures = figure ? [...figure.querySelectorAll("svg[role=img]")] : [];
    if (!figure) return [`figure ${id} is missing`];
    if (pictures.length === 0) return [`figure ${id} has no picture`];
    return pictures.flatMap((picture, index) => {
      const { width, height } = picture.getBoundingClientRect();
      const faults = [];
      if (!(width > 200 && height > 100)) faults.push(`picture ${index + 1} of ${id} is ${width}×${height} px`);
      if (!lines(picture).some((count) => count > 2)) faults.push(`picture ${index + 1} of ${id} has no line of 3 points`);
      return faults;
    });
  });
}

// How many points each line of a picture has.
function lines(picture) {
  const path = (line) => (line.getAttribute("d").match(/[ML]/g) || []).length;
  return [
    ...[...picture.querySelectorAll("path")].map(path),
    ...[...picture.querySelectorAll("polyline")].map((line) => line.points.numberOfItems),
  ];
}

function textOutOfPlace(picture) {
  const id = picture.getAttribute("aria-labelledby").split(" ")[0];
  const box = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text")]
    .map((text) => ({ text, at: text.getBoundingClientRect() }))
    .filter(({ at }) => at.width > 0);
  const faults = texts
    .filter(({ at }) => at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1)
    .map(({ text }) => `${words(text)} sticks out of ${id}`);
  texts.forEach(({ text, at }, index) => {
    for (const other of texts.slice(index + 1)) {
      const wide = Math.min(at.right, other.at.right) - Math.max(at.left, other.at.left);
      const high = Math.min(at.bottom, other.at.bottom) - Math.max(at.top, other.at.top);
      if (wide > 0 && high > SHARED_MAX * Math.min(at.height, other.at.height)) {
        faults.push(`${words(text)} and ${words(other.text)} overlap in ${id}`);
      }
    }
  });
  return faults;
}

function tooWide() {
  const { scrollWidth } = document.documentElement;
  if (scrollWidth <= window.innerWidth) return [];
  const inScrolled = (element) => element.parentElement.closest(".scroll");
  const widest = [...document.querySelectorAll("main *")]
    .filter((element) => !inScrolled(element) && element.getBoundingClientRect().right > window.innerWidth + 1)
    .slice(0, 3);
  const named = widest.map((element) => `${element.tagName} ${words(element)}`).join(", ");
  return [`the page is ${scrollWidth} px wide in a window of ${window.innerWidth}: ${named}`];
}

// Red, green, blue and opacity of a computed colour.
function channels(colour) {
  const [red, green, blue, opacity = 1] = colour.match(/[\d.]+/g).map(Number);
  return { red, green, blue, opacity };
}

// The relative luminance of WCAG 2.
function luminance({ red, green, blue }) {
  const linear = [red, green, blue]
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.opacity > 0) return colour;
  }
  return channels("rgb(255, 255, 255)");
}

function contrast(element) {
  const style = getComputedStyle(element);
  const ink = channels(element instanceof SVGElement ? style.fill : style.color);
  const [low, high] = [luminance(ink), luminance(behind(element))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function pale() {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faults = new Map();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("title, desc")) continue;
    const found = contrast(element);
    if (found < CONTRAST_MIN) {
      // One word of each kind is enough to find it.
      const kind = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
      faults.set(kind, `${kind} ${words(element)} has a contrast of ${found.toFixed(2)}, expected ${CONTRAST_MIN}`);
    }
  }
  return [...faults.values()];
}

function faults(figures) {
  document.querySelectorAll("details").forEach((details) => (details.open = true));
  const pictures = [...document.querySelectorAll("svg[role=img]")];
  const scripts = document.scripts.length ? ["the page has a script"] : [];
  return [...scripts, ...missingFigures(figures), ...pictures.flatMap(textOutOfPlace), ...tooWide(), ...pale()];
}
