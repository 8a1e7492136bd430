"""Draws the dashboards with Grafana's own components, from a Prometheus' data: pictures of them."""
