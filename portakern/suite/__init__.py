"""The field's public task suites, run against every target: adapters as plug-ins, one row of evidence for each task."""
