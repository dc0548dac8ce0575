"""Distributed checkpoints: saved by some processes, loaded by others, in PyTorch's files."""

import base64
import pickle
import zlib

import pytest
from distributed_ranks import needs_mpi, run_ranks

import facula
import facula.distributed.checkpoint as dcp
from facula import nn
from facula.distributed.checkpoint.metadata import Metadata, MetadataIndex
from facula.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

# {"w": arange(6.0).view(2, 3), "epoch": 7}, saved by PyTorch 2.13
METADATA = (
    'c-nnZ%Wl&^6gA{wppAso@&QO7+C_}>Xhk+iZ3&QCPNTM4G#Y!xnNc0vc*dovganHqA<eGS&*UGt<2)rEUfK7abMCpv_gnS;zG9V+dMVR9WDem%'
    '<~%4QB~Hj_c$K9*k<NrlOt8dSJ@S{YcY6Q3{;K!Xj*wVVM0hCC3TPS+zG!BtXO}b)X?_6%@R<Hdf0E^CMsvxjFz}~y_-I`$k$b9EI@HRJ;uOnH'
    '8|rFj?pn~C<Cx!K$<suuEi|SQ#dw+)(x4g(6l_K)(KCInf5N0)<oA8_{_Na8x<viq$=SQX@B`pIt3*g0sH)(%RIf%?FU%((9(t7@rH-nHtVphe'
    '{$#xGo|un+Zfd7dB&dWnpL>>PEfi{IMp;{_76C2-Rijx7Q;qKNR8sL*-9l|=F-{Viqh;>QX7)_84(rTJTg++ewxt?NjX^@_&Dvlk`kVk!)p%JS'
    'f{9oEy^Dy)R7{1W6Roz<!r&l@(zRwIr!oAOYl<=~nSmh}xusy3L4Na0AaqraX)*?g|EpRA?CqS-j$oZ*&tj*Wp+UdD=znAbb_x{c`TO-E*jU)y'
    'qDgOSBe)G;>opK3a8|}%%mb|+k5a*JM#k-(x#HJaRpbP`R)}$26B8WATAF`n3k-`H`iu4f=^TXJRuh5^n%!Q|ZT5O@yNO%mFbof)H&M$40^BY!'
    'grTx0DJdX6I338@zNWb-uea86T*rl)^BZ1eXNU'
)
DATA = (
    'c-rk%J#W)M7(UyL6O7akmX=CXf~Dc3seOs<7*twC$P)5E+N!APV!4iKE!?<gUxQ$(gs6mAK)_N7#J}JtbVNmhiH(7eg_V)Jn5MR)G;Nv%iHk3n'
    'k9*$t@x70qw`y<$0OWF@Z485RzzXbjx8Y3JENm4v?|XV>5UeD|Hfv-HRU@05YP^OS0;99qG3Y2zT0sl<{9wbvX2S_W*RSgpn2LRzA<^9Le|>q('
    'km$^jxyONem^;LNV68c(<+*G14X2LvO0kFZD@utHn0<hLup|Y0B!Lky+aj>~5IcTQa{|3`qnEq~!*enA9LnLz%-8cg$-*DWVF=8$IJ6F4>zzSS'
    'pt<+ot}S)H{|NvO3qU0`9Xf$aD)7j{goo+Y^h)7`R79wW<&siXR8>`=28)td5=Bwg)M8oDWLc3knOw~(z4FC3dBP*#WXVvnEuL}t4!1E+KL=@a'  # codespell:ignore
    'T!5nq<WdZs5_~#HTtwrEAp7wkZOTo@i3?#Q5odt`?E*~0<Fy=0z(2>}9qu81#1qNfEa+1Fs=@Qu4y3|OwUB&jeaS@YZ#G&9E=$*E1JU=$1u}eu'
    ';hX!Tz135jolOqkUN4wi*!4oe44l<1*Q=S>sfT`GHlTn&KEF)q{4En=B8Z@SzJ(W~9|goNQ<fs)mN~N8n_FnW;4#X~8^B-<ZU^xOXD~Y``_#65'
    '&vR^gMxk(r7R;&La&0W2+~oyy1|wksoozbsUbr~9OQP*|ao~%c9ryzHZ?=6j+d*(Mp{i+7uUtO`fhg+sEP0zF7n$2+zMG?rMxTFsF-HCv>tg>`'
    '+wFf6{3B*B$to;M8gX=~ESHp0QG|+ER3IduBuOr-P=bmQnf;a9pDuMW`}mX6PqY8o53`?V`eXJVk7M?6)eI)!cUh3q?(rMNceZPzh?ghTD7ao5'
    'MK-m5IA|1HvQg}1+8afdyy*UD?;niWTiE'
)


def write_by_pytorch(folder):
    for name, text in ((".metadata", METADATA), ("__0_0.distcp", DATA)):
        (folder / name).write_bytes(zlib.decompress(base64.b85decode(text)))


def test_files_of_pytorch(tmp_path):
    write_by_pytorch(tmp_path)
    state = {"w": facula.zeros(2, 3), "epoch": 0}
    w = state["w"]
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["epoch"] == 7 and state["w"] is w and w.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    found = dcp.FileSystemReader(tmp_path).read_metadata()
    assert isinstance(found, Metadata) and found.state_dict_metadata["w"].properties.dtype == facula.float32
    assert found.storage_data[MetadataIndex("w", facula.Size([0, 0]))].relative_path == "__0_0.distcp"
    # what is written here has the same names and fields
    dcp.save(state, checkpoint_id=tmp_path / "ours")
    ours = dcp.FileSystemReader(tmp_path / "ours").read_metadata()
    assert ours.state_dict_metadata == found.state_dict_metadata and ours.planner_data == found.planner_data
    assert ours.version == found.version and set(ours.storage_data) == set(found.storage_data)
    assert b"torch.distributed.checkpoint.metadata" in (tmp_path / "ours" / ".metadata").read_bytes()


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def trained(seed, steps=2):
    facula.manual_seed(seed)
    net = network()
    optimizer = facula.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        net(facula.randn(5, 3)).square().sum().backward()
        optimizer.step()
    return net, optimizer


def test_models_optimizers_and_anything_else(tmp_path):
    net, optimizer = trained(0)
    scheduler = facula.optim.lr_scheduler.StepLR(optimizer, 1)
    dcp.save({"model": net, "optimizer": optimizer, "scheduler": scheduler, "note": {"text": "x", 3: [1, {"a": facula.ones(2)}]}, "none": None},
             checkpoint_id=tmp_path)  # fmt: skip
    other, other_optimizer = trained(1)
    other_scheduler = facula.optim.lr_scheduler.StepLR(other_optimizer, 2)
    state = {"model": other, "optimizer": other_optimizer, "scheduler": other_scheduler, "note": {"text": "", 3: [0, {"a": facula.zeros(2)}]}, "none": 1}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["model"] is other and state["none"] is None
    assert state["note"]["text"] == "x" and state["note"][3][0] == 1 and state["note"][3][1]["a"].tolist() == [1.0, 1.0]
    assert all(facula.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values()))
    assert other_scheduler.state_dict() == scheduler.state_dict()
    for a, b in zip(optimizer.state_dict()["state"].values(), other_optimizer.state_dict()["state"].values()):
        assert all(facula.equal(a[k], b[k]) for k in a)


def test_states_by_name(tmp_path):
    (net, optimizer), (other, other_optimizer) = trained(0), trained(1)
    for options in (None, StateDictOptions(full_state_dict=True), StateDictOptions(flatten_optimizer_state_dict=True)):
        model, state = get_state_dict(net, optimizer, options=options)
        if options is None:
            assert list(state["state"]) == [n for n, _ in net.named_parameters()] == state["param_groups"][0]["params"]
        set_state_dict(other, other_optimizer, model_state_dict=model, optim_state_dict=state, options=options)
        assert all(facula.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values()))
        for a, b in zip(optimizer.state_dict()["state"].values(), other_optimizer.state_dict()["state"].values()):
            assert all(facula.equal(a[k], b[k]) for k in a)
    model.pop("0.bias")
    with pytest.raises(RuntimeError, match=r"^set_model_state_dict: .*\['0.bias'\] missing"):
        set_state_dict(other, [], model_state_dict=model, optim_state_dict={})


def test_what_does_not_fit_is_said(tmp_path):
    with pytest.raises(dcp.CheckpointException, match="^load: the folder has no .metadata"):
        dcp.load({"w": facula.zeros(2)}, checkpoint_id=tmp_path)
    write_by_pytorch(tmp_path)
    for state, text in (
        ({"v": facula.zeros(2)}, "no entry of this name, got 'v'"),
        ({"w": facula.zeros(2)}, r"w has shape \(2,\) here, got \(2, 3\)"),
        ({"epoch": facula.zeros(2)}, r"epoch has shape \(2,\) here, got no tensor"),
    ):
        with pytest.raises(dcp.CheckpointException, match=text):
            dcp.load(state, checkpoint_id=tmp_path)
    whole = (tmp_path / "__0_0.distcp").read_bytes()
    (tmp_path / "__0_0.distcp").write_bytes(whole[:-100])
    with pytest.raises(dcp.CheckpointException, match="is cut off"):
        dcp.load({"w": facula.zeros(2, 3), "epoch": 0}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="checkpoint_id or storage_writer must be given"):
        dcp.save({})
    with pytest.raises(NotImplementedError, match="planners"):
        dcp.save({}, checkpoint_id=tmp_path, planner=3)
    with pytest.raises(RuntimeError, match="overwrite is False"):
        dcp.save({}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.raises(ValueError, match="two entries have one name, got 'a.b'"):
        dcp.save({"a.b": 1, "a": {"b": 2}}, checkpoint_id=tmp_path / "new")


class Evil:
    def __reduce__(self):
        return exec, ("open('executed', 'w')",)


def test_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_by_pytorch(tmp_path)
    metadata = (tmp_path / ".metadata").read_bytes()
    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(pickle.UnpicklingError):
        dcp.load({"w": facula.zeros(2, 3)}, checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(metadata.replace(b"__0_0.distcp", b"../../../abc"))
    with pytest.raises(dcp.CheckpointException, match="must lie in the folder"):
        dcp.load({"w": facula.zeros(2, 3)}, checkpoint_id=tmp_path)
    assert not (tmp_path / "executed").exists()


def test_saving_while_the_program_goes_on(tmp_path):
    net, _ = trained(0)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    future = dcp.async_save({"model": net.state_dict()}, checkpoint_id=tmp_path)
    with facula.no_grad():
        for p in net.parameters():
            p.zero_()
    assert isinstance(future.wait(), Metadata)
    state = {"model": network().state_dict()}
    dcp.load(state, checkpoint_id=tmp_path)
    assert all(facula.equal(state["model"][k], before[k]) for k in before)


SPREAD = """
import copy
from facula import nn
import facula.nn.functional as F
import facula.distributed.checkpoint as dcp
from facula.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from facula.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from facula.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
from facula.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
folder, kind = sys.argv[1:]

def make(kind):
    facula.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    if kind == "fsdp2":
        fully_shard(net[0])
        fully_shard(net)
    elif kind == "fsdp1":
        net = FSDP(net)
    elif kind == "ddp":
        net = DDP(net)
    return net, facula.optim.AdamW(net.parameters(), lr=0.1)

def step(net, optimizer, n):
    optimizer.zero_grad()
    x = facula.randn(4, 3, generator=facula.Generator().manual_seed(n))
    net(x).square().mean().backward()
    optimizer.step()

def values(net):
    return {k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in get_model_state_dict(net).items()}
"""

SAVE = SPREAD + """
net, optimizer = make(kind)
for n in range(3):
    step(net, optimizer, n)
model, state = get_state_dict(net, optimizer)
assert list(model) == ["0.weight", "0.bias", "2.weight", "2.bias"], list(model)
x = facula.arange(15.0).view(5, 3)
d = distribute_tensor(x, init_device_mesh("cpu", (SIZE,)), [Shard(1)])
dcp.save({"model": model, "optim": state, "step": 3, "d": d}, checkpoint_id=folder)
future = dcp.async_save({"model": model}, checkpoint_id=folder + "/async")
for n in range(3, 5):
    step(net, optimizer, n)
future.wait()
dist.barrier()
assert os.path.exists(folder + "/async/.metadata")
after = values(net)
if RANK == 0:
    facula.save(after, folder + "/after.pt")
full = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
assert (len(full) == 4) == (RANK == 0)
print("ok")
"""

LOAD = SPREAD + """
net, optimizer = make(kind)
with facula.no_grad():
    for p in net.parameters():
        p.zero_()
step(net, optimizer, 99)  # so that there is a state to load
model, state = get_state_dict(net, optimizer)
d = distribute_tensor(facula.zeros(5, 3), init_device_mesh("cpu", (SIZE,)), [Shard(0)])
told = {"model": model, "optim": state, "step": 0, "d": d}
dcp.load(told, checkpoint_id=folder)
set_state_dict(net, optimizer, model_state_dict=told["model"], optim_state_dict=told["optim"])
assert told["step"] == 3 and facula.equal(d.full_tensor(), facula.arange(15.0).view(5, 3))
for n in range(3, 5):
    step(net, optimizer, n)
expected = facula.load(folder + "/after.pt")
for k, v in values(net).items():
    assert facula.allclose(v, expected[k], atol=1e-6), (kind, k, v, expected[k])
# names that are not there are said by all processes
raised(lambda: dcp.load({"nothing": facula.zeros(1)}, checkpoint_id=folder), "CheckpointException", "'nothing'")
one = {"model": model, "x": facula.zeros(1)} if RANK == 1 else {"model": model}
raised(lambda: dcp.load(one, checkpoint_id=folder), "processes failed", "1:") if SIZE > 1 else None
print("ok")
"""


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("kind", ["fsdp2", "fsdp1", "ddp"])
def test_another_number_of_processes_goes_on(kind, tmp_path):
    assert run_ranks(SAVE, 2, arguments=[str(tmp_path), kind]) == ["ok\n"] * 2
    others = {"fsdp2": (3, "fsdp2"), "fsdp1": (2, "fsdp2"), "ddp": (3, "fsdp1")}[kind]
    assert run_ranks(LOAD, others[0], arguments=[str(tmp_path), others[1]]) == ["ok\n"] * others[0]


FAILING = """
import facula.distributed.checkpoint as dcp
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
folder = sys.argv[1]
class Writer(dcp.FileSystemWriter):
    def __init__(self, fails):
        super().__init__(folder)
        self.fails = fails
    def write(self, name, data):
        if self.fails == ("write", RANK):
            raise OSError("no space left")
        super().write(name, data)
    def write_metadata(self, metadata):
        if self.fails == ("metadata", RANK):
            raise OSError("no space left")
        super().write_metadata(metadata)
    def prepare(self):
        if self.fails == ("prepare", RANK):
            raise OSError("no space left")
        super().prepare()
state = {"x": facula.ones(3), "n": 1}
for fails in (("prepare", 0), ("prepare", 1), ("write", 0), ("write", 1), ("metadata", 0)):
    raised(lambda: dcp.async_save(state, storage_writer=Writer(fails)).wait(), "no space left")
    raised(lambda: dcp.save(state, storage_writer=Writer(fails)), "no space left")
metadata = dcp.async_save(state, storage_writer=Writer(None)).wait()
assert (metadata is not None) == (RANK == 0)
print("ok")
"""


@needs_mpi
def test_a_process_that_fails_fails_the_others(tmp_path):
    assert run_ranks(FAILING, 2, arguments=[str(tmp_path)]) == ["ok\n"] * 2
