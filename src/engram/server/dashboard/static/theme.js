// Runs before anything is drawn, so that nobody sees the other colours first.
(() => {
  const chosen = localStorage.getItem("engram-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("scripted");
})();
