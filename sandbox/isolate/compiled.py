"""A script made ready to run: types blanked, positions kept, imports named. Stored, so replays never strip again."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True)
class Import:
    """A name that the script imports: `name` of `module` ("*" for all of it), called `local` in the script."""

    module: Literal["rewind", "rewind:tools", "rewind:workflows"]
    name: str
    local: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """`js` keeps the positions of the source; `main` is the name of the function to call.

    `line` and `column` say where main gives its result: errors about the output point there.
    """

    js: str
    params: list[Import]
    main: str
    epoch: int = 1
    line: int = 1
    column: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        return cls(
            js=stored["js"],
            params=[Import(**param) for param in stored["params"]],
            main=stored["main"],
            epoch=stored["epoch"],
            line=stored["line"],
            column=stored["column"],
        )

    def wrapper(self) -> str:
        """One line, then the script as written: V8's line is the source's plus one, its column the same."""
        names = ",".join(param.local for param in self.params)
        return f'(async function({names}){{"use strict";\n{self.js}\nreturn {self.main};\n}})\n//# sourceURL=script.ts'

    def imports_json(self) -> list[dict[str, Any]]:
        return [{"module": p.module, "name": p.name, "local": p.local} for p in self.params]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A refusal or a warning, written for the model that wrote the script: hint says what to write instead.

    Positions are 1-based, columns in UTF-16 code units; `code` is snake_case, or TS<n> from the compiler.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str
    line: int
    column: int
    end_line: int
    end_column: int
    frame: str
    hint: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        return cls(**stored)
