// What the theme's script makes without a name, for those who do not see it: the buttons of each code block, and tables to be scrolled.
document.addEventListener("DOMContentLoaded", () => {
  const name = () => {
    document.querySelectorAll(".md-code__nav:not([aria-label])").forEach((nav, i) => nav.setAttribute("aria-label", `Code block ${i + 1}`))
    document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach(table => { table.tabIndex = 0 })
  }
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true })
  name()
})
