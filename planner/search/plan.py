"""The entry: a scenario in, a plan out."""

from planner.catalog.catalog import Catalog
from planner.io.load import Loaded
from planner.model.parts.merging import Merging
from planner.model.plan import Plan
from planner.model.progress import Progress, silent
from planner.placing.sizing import Profiles
from planner.search.merged import weigh
from planner.search.names import with_known_names
from planner.search.one_way import plan_of_one_way


def plan(
    loaded: Loaded, catalog: Catalog, library: Profiles, *, created_at: str, progress: Progress | None = None
) -> Plan:
    """The answer to a scenario. The same inputs give the same plan but for `created_at`, an ISO time stamp."""
    loaded = with_known_names(loaded, catalog, library)
    answer = plan_of_one_way if loaded.scenario.merging is Merging.NONE else weigh
    return answer(loaded, catalog, library, created_at=created_at, progress=progress or silent)
