"""`python -m grafana.generator`: write every dashboard to grafana/dashboards."""

from __future__ import annotations

from grafana.generator import boards

if __name__ == "__main__":
    boards.write(boards.FOLDER)
