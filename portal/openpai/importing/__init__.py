"""What an OpenPAI cluster has, brought over: read from its REST API or from files, judged row by row, stored whole."""

from portal.openpai.importing.plan import Plan, Row, What, plan_make
from portal.openpai.importing.source import Group, Person, Place, Source, source_read
from portal.openpai.importing.ways import Unreadable, from_files, from_server

__all__ = [
    "Group",
    "Person",
    "Place",
    "Plan",
    "Row",
    "Source",
    "Unreadable",
    "What",
    "from_files",
    "from_server",
    "plan_make",
    "source_read",
]
