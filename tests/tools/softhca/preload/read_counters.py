"""Ten datagrams of 100 bytes, or as many as asked for, from a device to itself, and its counters before and after."""
import sys
import time

import pyverbs.device as d
import pyverbs.enums as e
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.qp import QP, QPCap, QPInitAttr, QPAttr
from pyverbs.wr import SGE, SendWR
c = d.Context(name='mlx5_0')
pd, cq = PD(c), CQ(c, 64)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=64)), QPAttr(port_num=1))
mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
gid = c.query_gid(1, 0)
ah = AH(pd, attr=AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0)))


def counters():
    values = []
    for name in ("counters/port_xmit_packets", "counters/port_rcv_packets", "counters/port_xmit_data",
                 "counters/port_rcv_data", "counters/multicast_xmit_packets", "hw_counters/out_of_sequence",
                 "counters/port_rcv_errors"):
        with open("/sys/class/infiniband/mlx5_0/ports/1/" + name) as file:
            values.append(int(file.read()))
    return values


DATAGRAMS = int(sys.argv[1]) if len(sys.argv) > 1 else 10
print(*counters())
for i in range(DATAGRAMS):
    wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(mr.buf, 100, mr.lkey)])
    wr.set_wr_ud(ah, 0x7fffff, 0)  # a queue pair that is not there
    qp.post_send(wr)
    while cq.poll(1)[0] == 0:
        pass
# Whatever is still on its way arrives in a moment.
last = None
while last != counters():
    last = counters()
    time.sleep(0.2)
print(*last)
