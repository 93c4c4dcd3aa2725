//! Results in; terminal text, HTML, SVG, JSON and Markdown out. Computes nothing.
