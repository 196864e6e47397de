"""What a script imports, read from its tokens."""

from dataclasses import dataclass, field

from sandbox.compiler.source import Source


@dataclass(frozen=True, slots=True)
class Imports:
    """Local names: `tools` and `workflows` to the name that is imported ("*" for all of the module); `rewind` likewise."""

    tools: dict[str, str] = field(default_factory=dict)
    workflows: dict[str, str] = field(default_factory=dict)
    rewind: dict[str, str] = field(default_factory=dict)

    def called(self, path: str) -> str | None:
        """The tool that a dotted name in the script calls: `gh.list_issues` to `github.list_issues`."""
        head, dot, rest = path.partition(".")
        if head in self.workflows:
            name = self.workflows[head]
            return f"workflows.{rest}" if name == "*" else f"workflows.{name}{dot}{rest}"
        name = self.tools.get(head, "")
        if not name:
            return None
        return rest or None if name == "*" else name + dot + rest


def imports_of(source: Source) -> Imports:
    imports = Imports()
    modules = {
        "rewind": imports.rewind,
        "rewind:tools": imports.tools,
        "rewind:workflows": imports.workflows,
    }
    tokens = source.tokens
    at = 0
    while at < len(tokens):
        if tokens[at].text != "import" or tokens[at].kind != "word":
            at += 1
            continue
        names: dict[str, str] = {}
        at += 1
        while at < len(tokens) and tokens[at].kind != "text" and tokens[at].text != ";":
            token = tokens[at]
            if token.kind == "word" and token.text not in {"type", "from", "as"}:
                renamed = (
                    at + 2 < len(tokens) and tokens[at + 1].text == "as" and tokens[at + 2].kind == "word"
                )
                names[tokens[at + 2].text if renamed else token.text] = token.text
                at += 2 if renamed else 0
            elif token.text == "*" and at + 2 < len(tokens) and tokens[at + 1].text == "as":
                names[tokens[at + 2].text] = "*"
                at += 2
            at += 1
        if at < len(tokens) and tokens[at].kind == "text" and tokens[at].text[1:-1] in modules:
            modules[tokens[at].text[1:-1]].update(names)
    return imports
