// Run before anything is drawn, so that the page does not flash in the other colours.
(() => {
  const chosen = localStorage.getItem("engram-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("scripted");
})();
