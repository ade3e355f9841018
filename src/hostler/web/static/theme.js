// Light, dark, or as the system has it. Runs before anything is painted.
"use strict";

(() => {
  const kept = localStorage.getItem("theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
