"""Environments for a verbs program on soft devices: with Debian's libraries, or with ours."""

import os
import random

from preload import environment_with

PRELOAD = os.path.abspath("tools/softhca/preload/libumlx5_preload.so")
LIBRARIES = os.path.abspath("driver/verbs/lib")

STOCK = "stock"
UMLX5 = "umlx5"


def loopback_address():
    """An address for UMLX5_SOFT_ADDR that no other test is likely to have."""
    return f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"


def environment(lane, **variables):
    result = environment_with(PRELOAD) | variables
    result.pop("LD_LIBRARY_PATH", None)
    if lane == UMLX5:
        result["LD_LIBRARY_PATH"] = LIBRARIES
    return result
