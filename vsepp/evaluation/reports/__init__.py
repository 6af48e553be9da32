"""Measurements as people read them.

`paper_table` has the columns of the paper; `tables` has everything, as text, Markdown, LaTeX or HTML; `per_query`
writes what each query found; `comparison_page` shows where two models differ. `page` is the HTML that all pages share.
"""
