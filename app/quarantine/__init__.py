"""Runs that stopped because their replay differed: release them, abandon them, put one there for a drill."""
