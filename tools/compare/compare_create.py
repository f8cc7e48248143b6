#!/usr/bin/python3
"""Creates queue pairs, shared receive queues and receive work queues with the same random attributes through Debian's
libibverbs and libmlx5 and through umlx5's, on a software device, and compares what came of it: result, errno, returned
capabilities, posting functions, rings, and the kernel's request. What may differ, and why, is the second table of
docs/stock_differences.md: each row there has a rule here, each rule a row, and what no rule explains is a failure."""

import argparse
import errno
import json
import os
import subprocess
import sys
import tempfile
import time

from compare_bytes import STOCK, UMLX5, environment

# Attributes of the kernel's request.
CAPABILITIES, DRIVER_PART = "kernel:0x8", "kernel:0x1000"

FIELDS = ("made", "errno", "cap", "rest_kept", "qp", "builders", "dv_builders", "view", "kernel")
ALL = "all"

# <infiniband/verbs.h>, <infiniband/mlx5dv.h>
RC, UC, UD, RAW_PACKET, XRC_SEND, XRC_RECV, DRIVER = 2, 3, 4, 8, 9, 10, 255
SEND_OPS_MASK, TSO_MASK, FLAGS_MASK = 1 << 6, 1 << 3, 1 << 2
DV_FLAGS_MASK, DV_DC_MASK, DV_SEND_OPS_MASK = 1, 2, 4
SOURCE_QPN = 1 << 10
OOO_DP = 1 << 7
MKEY_CONFIGURE = 4
MOST_OCTOWORDS = 63
ABSURD_INLINE = 0x7fffff00


class Set:
    """One set of attributes and what both libraries made of it."""

    def __init__(self, stock, ours):
        self.stock, self.ours = stock, ours
        self.asked, self.call = stock["asked"], stock["call"]
        self.is_qp = "qp" in self.call
        self.type = self.asked.get("type")
        self.different = {field for field in FIELDS if stock.get(field) != ours.get(field)}
        if "kernel" in self.different and len(stock["kernel"]) == len(ours["kernel"]) == 1:
            self.different = self.different - {"kernel"} | set(self.kernel_differences())

    def has(self, bit):
        return self.is_qp and self.asked["comp_mask"] & bit != 0

    def has_dv(self, bit):
        return self.call == "mlx5dv_create_qp" and self.asked["dv_mask"] & bit != 0

    def operations(self):
        return self.asked["operations"] if self.has(SEND_OPS_MASK) else None

    def dv_operations(self):
        return self.asked["dv_operations"] if self.has_dv(DV_SEND_OPS_MASK) else 0

    def refused_by_both(self):
        return not self.stock["made"] and not self.ours["made"]

    def refused_by_ours(self):
        return not self.ours["made"] and self.ours["errno"] == errno.EINVAL

    def kernel_differences(self):
        """What differs in requests that both sent once: "kernel:" and the attribute -> (stock's, ours)."""
        left, right = ({"kernel:" + part.split(":")[0]: part for part in side["kernel"][0].split(" | ")}
                       for side in (self.stock, self.ours))
        return {name: (left.get(name), right.get(name)) for name in left.keys() | right.keys()
                if left.get(name) != right.get(name)}


def header_octowords(s):
    """What a WQE with data has in front of it: control, what the operations need, what the type needs."""
    operations = s.operations()
    connected = s.type in (RC, UC, XRC_SEND, DRIVER)
    rdma = connected and (operations is None or operations & 0x13)  # writes, with immediate too, and reads
    underlay = s.type == UD and s.has(FLAGS_MASK) and s.asked["create_flags"] & SOURCE_QPN
    return 1 + (1 if rdma else 0) + {XRC_SEND: 1, UD: 6 if underlay else 3, DRIVER: 3, RAW_PACKET: 2}.get(s.type, 0)


def data_octowords(s):
    """Of the largest gather list or inline data that was asked for."""
    _, _, sge, _, inline = s.asked["cap"]
    tso = (s.asked["tso_header"] + 15) // 16 if s.has(TSO_MASK) else 0
    return max(sge + tso, (inline + 4 + 15) // 16 if inline else 0)


def inline_told(s):
    """max_inline_data as both told it, in what they gave or at least asked of the kernel."""
    def of(side):
        if side["made"]:
            return side["cap"][4]
        caps = [part.rsplit("/", 1)[1] for request in side["kernel"] for part in request.split(" | ")
                if part.startswith("0x8:20:")]
        return int(caps[0]) if caps else None
    return of(s.stock), of(s.ours)


def no_queue_bytes(s):
    """The driver's part differs in the addresses of buffers that have no bytes."""
    left, right = (text.split("=", 1)[1].split() for text in s.kernel_differences()[DRIVER_PART])
    fields = [(a, b) for a, b in zip(left, right) if a != b]
    return all(a.split("=")[0] in ("buf", "sq_buf") and b.endswith("=0") for a, b in fields)


def too_long_for_ds(s):
    if not s.is_qp or s.asked["cap"][4] >= ABSURD_INLINE:
        return set()
    if s.refused_by_ours() and header_octowords(s) + data_octowords(s) > MOST_OCTOWORDS:
        return ALL
    stock, ours = inline_told(s)
    fits_not = stock is not None and ours is not None and \
        16 * header_octowords(s) + 4 + stock > 16 * MOST_OCTOWORDS >= 16 * header_octowords(s) + 4 + ours
    return {"cap", CAPABILITIES} if fits_not else set()


def no_room_for_inline(s):
    stock, ours = inline_told(s) if s.is_qp else (None, None)
    return {"cap", CAPABILITIES} if (stock, ours) == (2 ** 32 - 4, 0) else set()


def absurd_inline(s):
    return ALL if s.is_qp and s.asked["cap"][4] >= ABSURD_INLINE and s.refused_by_ours() else set()


def absurd_receive_sges(s):
    cap = s.asked.get("cap")
    return ALL if s.is_qp and cap[1] > 0 and cap[3] >= 0x10000000 and s.refused_by_ours() else set()


def errno_left_alone(s):
    unset = s.refused_by_both() and s.stock["errno"] == 0 and s.ours["errno"] == errno.EINVAL
    return {"errno"} if unset else set()


def attributes_of_refused(s):
    asked = s.asked["cap"] if s.is_qp else s.asked["attr"]
    return {"cap"} if s.refused_by_both() and s.ours["cap"] == asked else set()


def initiator_receives(s):
    return ALL if s.type == XRC_SEND and s.asked["cap"][1] > 0 else set()


def target_queues(s):
    return ALL if s.type == XRC_RECV and any(s.asked["cap"]) else set()


def srq_of_xrc(s):
    return ALL if s.type in (XRC_SEND, XRC_RECV) and s.asked["objects"][2] != "none" and s.refused_by_ours() else set()


def empty_buffer(s):
    return {DRIVER_PART} if s.is_qp and DRIVER_PART in s.different and no_queue_bytes(s) else set()


def no_send_queue(s):
    view = s.stock.get("view"), s.ours.get("view")
    sizes = all(view) and view[0][:2] == view[1][:2] == [0, 0] and view[0][3:] == view[1][3:]
    return {"view"} if s.is_qp and sizes and (view[0][2], view[1][2]) == (1, 64) else set()


def out_of_order(s):
    flag = s.has_dv(DV_FLAGS_MASK) and s.asked["dv_flags"] & OOO_DP
    return ALL if flag and not s.stock["made"] and s.stock["errno"] == errno.EINVAL else set()


def mkey_configure_alone(s):
    alone = s.type == RC and s.dv_operations() & MKEY_CONFIGURE and not s.dv_operations() & 3 \
        and (s.operations() is None or not s.operations() & 0x180)
    return {"cap", "view", CAPABILITIES, DRIVER_PART} if alone and s.operations() is not None else set()


def builders_of_mkeys(s):
    more = s.is_qp and s.stock.get("dv_builders", 0) & ~s.ours.get("dv_builders", 0) == 0
    return {"dv_builders"} if more and s.dv_operations() == 0 else set()


def operations_without_mask(s):
    unread = s.call == "mlx5dv_create_qp" and not s.has(SEND_OPS_MASK) and s.asked["operations"]
    return ALL if unread and s.has_dv(DV_SEND_OPS_MASK) else set()


def half_of_rss(s):
    half = s.has(1 << 4) != s.has(1 << 5)
    return {"errno", "kernel"} if half and s.refused_by_both() and s.ours["errno"] == errno.EINVAL else set()


def nobodys(s):
    """No PD, or no XRC domain: the one is told first, the other last."""
    lacks = s.is_qp and not s.asked["comp_mask"] & (2 if s.type == XRC_RECV else 1)
    return {"errno", "kernel"} if lacks and s.refused_by_both() and s.ours["errno"] == errno.EINVAL else set()


def unknown_of_srq(s):
    if not s.call.startswith("ibv_create_srq"):
        return set()
    unknown = s.asked["comp_mask"] >> 5 or (s.asked["comp_mask"] & 1 and s.asked["srq_type"] not in (0, 1))
    return ALL if unknown and not s.ours["made"] and s.ours["errno"] == errno.EOPNOTSUPP else set()


def flags_of_wq(s):
    flags = s.call == "ibv_create_wq" and s.asked["comp_mask"] & 1 and s.asked["create_flags"] & ~1
    return {"errno", "kernel"} if flags and s.refused_by_both() and s.ours["errno"] == errno.EOPNOTSUPP else set()


def absurd_wq(s):
    return ALL if s.call == "ibv_create_wq" and s.asked["attr"][0] * 16 >= 2 ** 31 and s.refused_by_ours() else set()


def size_of_wq(s):
    bigger = s.call == "ibv_create_wq" and s.stock["made"] and s.ours["made"] and s.stock["cap"] == s.asked["attr"]
    return {"cap"} if bigger and all(a <= b for a, b in zip(s.stock["cap"], s.ours["cap"])) else set()


def kernel_not_asked(s):
    return {"kernel"} if s.refused_by_both() and s.stock["errno"] == s.ours["errno"] and not s.ours["kernel"] else set()


# First column of the table -> the fields that it explains in a set, or none.
RULES = {
    "A refusal that sets no errno": errno_left_alone,
    "The attributes of a refused call": attributes_of_refused,
    "Inline capacity of a WQE without room": no_room_for_inline,
    "A WQE of more than 63 octowords": too_long_for_ds,
    "max_inline_data near 2^31 and above": absurd_inline,
    "max_recv_sge from 2^28 on": absurd_receive_sges,
    "Receive requests of an XRC initiator": initiator_receives,
    "Queues of an XRC target": target_queues,
    "A shared receive queue on an XRC queue pair": srq_of_xrc,
    "A queue pair without queues": empty_buffer,
    "mlx5dv_init_obj() without a send queue": no_send_queue,
    "OOO_DP": out_of_order,
    "MKEY_CONFIGURE alone": mkey_configure_alone,
    "Posting functions for memory keys": builders_of_mkeys,
    "send_ops_flags without its mask": operations_without_mask,
    "A table without a hash, or a hash without a table": half_of_rss,
    "No PD or XRC domain": nobodys,
    "Unknown bits or type of a shared receive queue": unknown_of_srq,
    "Flags of a receive work queue": flags_of_wq,
    "max_wr of a receive work queue near 2^31": absurd_wq,
    "Size of a receive work queue": size_of_wq,
    "What the kernel would refuse": kernel_not_asked,
}


def listed(path):
    """First column of the table under "Where creation differs"."""
    with open(path, encoding="utf-8") as text:
        section = text.read().split("## Where creation differs", 1)
    if len(section) != 2:
        sys.exit(f"{path} has no section 'Where creation differs'")
    rows = [line.split("|")[1].strip().replace("`", "") for line in section[1].splitlines() if line.startswith("| ")]
    return rows[1:]


def check_list(path):
    rows = set(listed(path))
    for name in RULES:
        if name not in rows:
            sys.exit(f"{path} does not list '{name}'")
    for row in sorted(rows - set(RULES)):
        sys.exit(f"{path} lists '{row}', which no rule of {os.path.basename(__file__)} checks")


def explain(s):
    """(names of the rules that explain something, fields that are left)."""
    left, names = set(s.different), []
    for name, rule in RULES.items():
        explained = rule(s) if left else set()
        explained = set(left) if explained == ALL else left & explained
        if explained:
            names.append(name)
            left -= explained
    return names, left


class Lane:
    """One library's run, read line by line."""

    def __init__(self, options, lane):
        self.lane = lane
        self.errors = tempfile.TemporaryFile("w+")
        command = [options.program, "--first", str(options.first), "--sets", str(options.sets)]
        self.process = subprocess.Popen(command, env=environment(options, lane) | options.device,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def finish(self):
        if self.process.wait() != 0:
            self.errors.seek(0)
            sys.exit(f"{self.lane}: create_queues ended with {self.process.returncode}\n{self.errors.read()[-2000:]}")


def show(s, left):
    print(f"seed {s.stock['seed']}: {s.call} {json.dumps(s.asked)}")
    for field in FIELDS:
        if any(name.split(":")[0] == field for name in left):
            print(f"    {field}\n      stock: {s.stock.get(field)}\n      umlx5: {s.ours.get(field)}")


def tell_progress(options, done):
    if not options.json and sys.stderr.isatty():
        print(f"\r{done} of {options.sets} sets", end="\n" if done == options.sets else "", file=sys.stderr, flush=True)


def compare(options):
    lanes = [Lane(options, STOCK), Lane(options, UMLX5)]
    result = {"sets": 0, "made": 0, "refused": 0, "same": 0, "intended": dict.fromkeys(RULES, 0), "different": []}
    shown, told = 0, time.monotonic()
    for stock, ours in zip(*(lane.process.stdout for lane in lanes)):
        s = Set(json.loads(stock), json.loads(ours))
        if s.stock["seed"] != s.ours["seed"] or s.stock["asked"] != s.ours["asked"]:
            sys.exit(f"the lanes asked for different things: {stock}{ours}")
        names, left = explain(s)
        result["sets"] += 1
        result["made" if s.ours["made"] else "refused"] += 1
        result["same"] += not s.different
        for name in names:
            result["intended"][name] += 1
        if left:
            result["different"].append(s.stock["seed"])
            if shown < options.show and not options.json:
                show(s, left)
                shown += 1
        if time.monotonic() - told > 0.5 or result["sets"] == options.sets:
            told = time.monotonic()
            tell_progress(options, result["sets"])
    for lane in lanes:
        lane.finish()
    if result["sets"] != options.sets:
        sys.exit(f"{result['sets']} sets were compared, not {options.sets}")
    return result


def report(result):
    print(f"{result['sets']} sets of attributes: {result['made']} made, {result['refused']} refused, "
          f"{result['same']} the same in all")
    for name, count in result["intended"].items():
        print(f"{count:>7} differ as meant: {name}")
    different = result["different"]
    print(f"{len(different)} differ without being listed" + (f", the first of them {different[:5]}" if different else ""))


def main():
    parser = argparse.ArgumentParser(prog="umlx5 compare-create", description=__doc__)
    parser.add_argument("--sets", type=int, default=20000, help="how many (20000)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one (0)")
    parser.add_argument("--caps", default="", help="what the device does without, as UMLX5_SOFT_CAPS (nothing)")
    parser.add_argument("--show", type=int, default=3, help="how many unlisted differences to show (3)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    for path in ("program", "preload", "libraries", "differences"):
        parser.add_argument(f"--{path}", required=True, type=os.path.abspath, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.device = {"UMLX5_SOFT_CAPS": options.caps} if options.caps else {}
    check_list(options.differences)
    result = compare(options)
    if options.json:
        print(json.dumps(result))
    else:
        report(result)
    sys.exit(1 if result["different"] else 0)


if __name__ == "__main__":
    main()
