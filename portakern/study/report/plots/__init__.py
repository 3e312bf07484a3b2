"""The report's plots: Vega-Lite specifications, drawn to SVG when the page is written, so that a page carries no library."""
