"""Devices: whether one is there, said before a model is moved to it. How models compute on them is not decided here."""

from __future__ import annotations

from typing import Any

import torch

from gspn.errors import InputError


def check_device(device: Any) -> None:
    """Refuse a device that torch knows and this machine, or this build of torch, does not have."""
    if not isinstance(device, str | int | torch.device):
        return  # a dtype, a tensor to be like, or nothing
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else "torch gives no reason"
        raise InputError(
            f"the model cannot go to {device!s}: {reason}. It stays where it is; device 'cpu' is always there"
        ) from error
