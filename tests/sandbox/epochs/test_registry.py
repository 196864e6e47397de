"""Epochs are what was recorded, byte for byte, or they are not served."""

import hashlib
import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from sandbox.epochs import registry
from sandbox.epochs.build import BUNDLES, DECLARATIONS, EPOCHS, file_digests
from sandbox.epochs.registry import EpochFault, check_engine, epoch_files, served_epochs


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(EPOCHS / "e1", tmp_path / "e1", ignore=shutil.ignore_patterns("src", "strip", "lib"))
    return tmp_path


@pytest.mark.parametrize("epoch", served_epochs())
def test_the_manifest_holds_the_digests_of_what_is_built(epoch: int) -> None:
    folder = EPOCHS / f"e{epoch}"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["files"] == file_digests(folder)
    assert set(manifest["files"]) == {bundle.name for bundle in BUNDLES[epoch]} | set(DECLARATIONS)
    assert manifest["epoch"] == epoch


def test_the_engine_is_part_of_the_epoch() -> None:
    files = epoch_files(1)
    assert files.engine == metadata.version("mini-racer")
    assert "--jitless" in files.flags
    check_engine(files)


def test_a_changed_byte_is_refused(copy: Path) -> None:
    runtime = copy / "e1" / "built" / "runtime.js"
    runtime.write_bytes(runtime.read_bytes() + b" ")
    with pytest.raises(EpochFault, match=r"runtime\.js differs from its manifest: run `make setup`"):
        epoch_files(1, copy)


def test_a_missing_file_says_what_to_do(copy: Path) -> None:
    (copy / "e1" / "built" / "url.js").unlink()
    with pytest.raises(EpochFault, match=r"url\.js is not built: run `make setup`"):
        epoch_files(1, copy)


def test_an_unknown_epoch(copy: Path) -> None:
    with pytest.raises(EpochFault, match="does not serve epoch 7"):
        epoch_files(7, copy)


def test_another_engine_is_refused(copy: Path) -> None:
    path = copy / "e1" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["engine"]["mini_racer"] = "0.13.0"
    path.write_text(json.dumps(manifest))
    with pytest.raises(EpochFault, match=r"needs mini-racer 0\.13\.0"):
        check_engine(epoch_files(1, copy))


def test_served_epochs_are_the_folders_with_a_manifest(copy: Path) -> None:
    (copy / "e2").mkdir()
    assert served_epochs(copy) == (1,)
    assert served_epochs(registry.FOLDER) == (1,)


def test_digests_are_sha256_of_the_bytes() -> None:
    runtime = EPOCHS / "e1" / "built" / "runtime.js"
    assert file_digests(EPOCHS / "e1")["runtime.js"] == hashlib.sha256(runtime.read_bytes()).hexdigest()
