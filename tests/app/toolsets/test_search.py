"""Finding tools by a few words."""

import pytest

from app.toolsets.search import ToolIndex, words_of
from tests.fixtures.recorded import pinned, recorded_tools


def found(query: str, limit: int = 3) -> list[str]:
    tools = recorded_tools()
    return [name.partition(".")[2] for name in ToolIndex(tools).search(query, limit)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("create a pull request", "create_pull_request"),
        ("list the pull requests", "list_pull_requests"),
        ("take a screenshot", "browser_take_screenshot"),
        ("pie chart", "generate_pie_chart"),
        ("read file", "read_file"),
        ("convert time between timezones", "convert_time"),
        ("git commit", "git_commit"),
        ("searching repositories", "search_repositories"),
        ("notion database query", "API_query_data_source"),
        ("hubspot associations", "hubspot_list_associations"),
        ("knowledge graph entities", "create_entities"),
        ("editing files", "edit_file"),
        ("merge the PR", "merge_pull_request"),
        ("open a ticket in the repo", "create_issue"),
        ("remember something", "create_entities"),
        ("modify a file", "edit_file"),
        ("remove an entity", "delete_entities"),
        ("show the folder", "list_directory"),
        ("plot a histogram", "generate_histogram_chart"),
        ("look up code", "search_code"),
        ("what time is it in Tokyo", "get_current_time"),
        ("fill in a form", "browser_fill_form"),
    ],
)
def test_real_tools_are_found(query: str, name: str) -> None:
    assert name in found(query, 5)


def test_an_exact_name_is_first() -> None:
    assert found("pypi_mcp_server_git.git_add")[0] == "git_add"


def test_words_that_nothing_has_find_nothing() -> None:
    assert found("xylophone") == []
    assert found("the of and") == []
    assert found("") == []
    assert ToolIndex([]).search("anything", 5) == []


def test_limits_and_ties_are_stable() -> None:
    tools = [pinned(f"t{n}", {"type": "object"}, description="sends mail") for n in range(80)]
    index = ToolIndex(tools)
    assert index.search("send mails", 3) == ["t0", "t1", "t2"]
    assert len(index.search("send", 1_000)) == 50


def test_words() -> None:
    assert words_of("listIssues list_issues HTTPServer 2fa queries") == [
        "list", "issu", "list", "issu", "http", "server", "2", "fa", "query",
    ]  # fmt: skip
