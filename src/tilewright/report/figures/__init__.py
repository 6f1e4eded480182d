"""How are memory, layouts, schedules, timelines and rooflines drawn: SVG, lines of text, Chrome traces?"""
