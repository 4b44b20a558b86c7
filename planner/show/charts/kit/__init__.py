"""What charts are made of - axes, blocks, marks - and the two that draw them: SVG on pages, matplotlib for --plot."""
