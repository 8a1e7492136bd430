"""Makes the dashboards: `python -m grafana.generator` writes them into grafana/dashboards."""
