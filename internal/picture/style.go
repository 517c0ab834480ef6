package picture

import _ "embed"

var (
	// figureCSS colours what is drawn, on a light ground.
	//
	//go:embed figure.css
	figureCSS string
	// pageCSS is of the page around it, and of a dark ground and paper.
	//
	//go:embed page.css
	pageCSS string
)
