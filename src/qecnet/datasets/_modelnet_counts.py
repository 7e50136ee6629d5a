"""How many shapes of each class the official splits of ModelNet have."""

from __future__ import annotations

_FORTY = """
airplane 626 100, bathtub 106 50, bed 515 100, bench 173 20, bookshelf 572 100, bottle 335 100, bowl 64 20,
car 197 100, chair 889 100, cone 167 20, cup 79 20, curtain 138 20, desk 200 86, door 109 20, dresser 200 86,
flower_pot 149 20, glass_box 171 100, guitar 155 100, keyboard 145 20, lamp 124 20, laptop 149 20, mantel 284 100,
monitor 465 100, night_stand 200 86, person 88 20, piano 231 100, plant 240 100, radio 104 20, range_hood 115 100,
sink 128 20, sofa 680 100, stairs 124 20, stool 90 20, table 392 100, tent 163 20, toilet 344 100, tv_stand 267 100,
vase 475 100, wardrobe 87 20, xbox 103 20
"""
TEN = ("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table", "toilet")

_forty = {name: {"train": int(train), "test": int(test)} for name, train, test in map(str.split, _FORTY.split(","))}

OFFICIAL = {"modelnet10": {name: _forty[name] for name in TEN}, "modelnet40": _forty}
"""Dataset → class → split → number of shapes."""
