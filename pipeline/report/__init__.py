"""The report: tables, figures and the page that show the evidence. Nothing here decides a verdict."""
