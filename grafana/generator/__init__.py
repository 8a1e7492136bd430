"""Generates the dashboards: `python -m grafana.generator` writes them to grafana/dashboards."""
