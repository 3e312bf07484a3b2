"""The report: a study as one HTML file that needs nothing else, to be sent to a colleague.

Made when it is written, on the Python side: tables and sources by templates (``templates/``), plots as SVG by Vega-Lite
(:mod:`portakern.study.report.plots`).  What runs in the reader's browser only sorts, filters, chooses and unpacks; without
scripts, and on paper, everything but the packed assembly is there.
"""

from portakern.study.report.document import document, machines, mark, where
from portakern.study.report.study_page import page

__all__ = ["document", "machines", "mark", "page", "where"]
