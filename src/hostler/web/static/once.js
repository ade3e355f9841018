// The page of a one-time link sends its code by itself; without scripts there is its button.
addEventListener("DOMContentLoaded", () => document.querySelector("form[data-once]")?.requestSubmit());
