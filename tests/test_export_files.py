"""Files of exported programs: written, read, damaged, and those of PyTorch."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from export_helpers import Net, close, ops_of
from fuzz import programs

import facula
from facula import _C, export, nn
from facula.export import Dim


@pytest.fixture
def net():
    facula.manual_seed(0)
    return Net().eval()


def saved(ep):
    file = io.BytesIO()
    export.save(ep, file)
    return file


def test_files_are_read_as_they_were_written(net, tmp_path):
    shapes = {"x": {0: Dim("batch", min=3, max=64)}}
    x = facula.randn(5, 8)
    ep = export.export(net, (x,), dynamic_shapes=shapes)
    export.save(ep, tmp_path / "net.pt2")
    again = export.load(tmp_path / "net.pt2")
    renamed = {"_view_or_copy": "view", "rsub": "sub"}
    names = [renamed.get(name, name) for name in ops_of(again) if not name.startswith(("int_", "sym_"))]
    assert names == ops_of(ep)
    assert set(again.state_dict) == set(ep.state_dict) and isinstance(again.state_dict["lin.weight"], nn.Parameter)
    assert facula.equal(again.example_inputs[0][0], x)
    for n in (3, 9):
        x = facula.randn(n, 8)
        close(again._run(x)["out"], net(x)["out"])
        close(again.module()(x)["out"], net(x)["out"])
    with pytest.raises(RuntimeError, match=r"\[3, 64\], got 2"):
        again._run(facula.randn(2, 8))


def test_arguments_of_all_kinds_survive():
    class Kinds(nn.Module):
        def forward(self, x):
            a = facula.full_like(x, float("inf"), dtype=facula.float64).clamp(max=3)
            b = x.to(facula.bfloat16).contiguous(memory_format=facula.channels_last).float()
            c = facula.nn.functional.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear", align_corners=False)
            d = x[:, None, facula.tensor([0, 1])] + facula.ones(1, dtype=facula.complex64)
            return a, b, c, facula.view_as_real(d), facula.div(x, 3, rounding_mode="floor"), facula.einsum("abcd,abcd->ab", x, x)

    x = facula.rand(2, 3, 4, 4)
    again = export.load(saved(export.export(Kinds(), (x,))))
    for a, b in zip(again._run(x), Kinds()(x)):
        assert a.dtype == b.dtype
        close(a, b)


def test_files_that_are_no_programs():
    with pytest.raises(RuntimeError, match="no archive"):
        export.load(io.BytesIO(b"nothing"))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/b", "c")
    with pytest.raises(RuntimeError, match="there is no archive_format"):
        export.load(file)


def changed(file, name, change):
    """The archive with one entry changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(made, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info.filename, change(data) if info.filename.endswith(name) else data)
    return made


def edited(file, edit):
    def change(data):
        model = json.loads(data)
        edit(model)
        return json.dumps(model)

    return changed(file, "models/model.json", change)


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda m: m["schema_version"].update(major=9), "schema 8 is expected, got 9"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.aten.no_such.default"), "aten.no_such.default is not known"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(target="os.system"), "os.system is not known"),
        (lambda m: m["graph_module"]["graph"]["nodes"][0].update(inputs=[]), "needs the argument"),
        (lambda m: m["graph_module"]["graph"]["tensor_values"].clear(), "nothing is said of the tensor"),
        (lambda m: m["graph_module"]["signature"]["input_specs"].pop(), "a value that is defined before"),
        (lambda m: m.pop("graph_module"), "damaged: .*'graph_module' is missing"),
    ],
)  # fmt: skip
def test_damaged_programs(net, edit, message):
    file = saved(export.export(net, (facula.randn(5, 8),)))
    with pytest.raises(RuntimeError, match=message):
        export.load(edited(file, edit))


def test_tensors_that_do_not_fit_are_refused(net):
    file = saved(export.export(net, (facula.randn(5, 8),)))
    with pytest.raises(RuntimeError, match="reaches beyond its 4 bytes"):
        export.load(changed(file, "weights/weight_0", lambda data: data[:4]))
    with pytest.raises(RuntimeError, match="nested at most 200 deep"):
        export.load(changed(file, "models/model.json", lambda data: b"[" * 100_000))
    with pytest.raises(RuntimeError, match="lin.weight is pickled"):
        export.load(changed(file, "weights/model_weights_config.json", lambda d: d.replace(b'"use_pickle": false', b'"use_pickle": true')))


def test_archives_may_be_deflated(net):
    x = facula.randn(5, 8)
    made = io.BytesIO()
    with zipfile.ZipFile(saved(export.export(net, (x,)))) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    close(export.load(made)._run(x)["out"], net(x)["out"])


def test_files_are_found_by_paths(net, tmp_path):
    x = facula.randn(5, 8)
    path = tmp_path / "n\u00e9t.pt2"
    export.save(export.export(net, (x,)), path)
    for form in (path, str(path)):
        close(export.load(form)._run(x)["out"], net(x)["out"])
    with pytest.raises(FileNotFoundError):
        export.load(tmp_path / "none.pt2")
    with pytest.raises(RuntimeError, match="is no file of a disk"):
        export.load(tmp_path)


def test_tied_and_frozen_parameters_stay_so():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
            self.b.weight = self.a.weight
            self.b.bias.requires_grad_(False)

        def forward(self, x):
            return self.b(self.a(x))

    x = facula.rand(2, 3)
    net = Tied()
    ep = export.load(saved(export.export(net, (x,))))
    assert not ep.state_dict["b.bias"].requires_grad and isinstance(ep.state_dict["b.bias"], nn.Parameter)
    ep.module()(x).sum().backward()
    net(x).sum().backward()
    close(sum(p.grad for p in {id(p): p for p in ep.parameters()}.values() if p.grad is not None), net.a.weight.grad)


def programs_of_pytorch():
    """(name, bytes, inputs, results) of the stored programs, see data/make_pytorch_programs.py."""
    with zipfile.ZipFile(Path(__file__).parent / "data" / "pytorch_programs.zip") as stored:
        for name in stored.namelist():
            if name.endswith(".pt2"):
                arrays = np.load(io.BytesIO(stored.read(name.partition(".")[0] + ".npz")))
                parts = [[arrays[k] for k in arrays.files if k[0] == word] for word in "xy"]
                yield pytest.param(stored.read(name), *parts, id=name.removesuffix(".pt2"))


@pytest.mark.parametrize("data, inputs, results", list(programs_of_pytorch()))
def test_programs_of_pytorch_run(data, inputs, results):
    inputs = [facula.from_numpy(x) if x.ndim else int(x) for x in inputs]
    ep = export.load(io.BytesIO(data))
    assert ep.example_inputs is not None
    for run in (ep._run, export.load(io.BytesIO(data)).module()):
        found = facula.utils._pytree.tree_leaves(run(*inputs))
        assert len(found) == len(results)
        for a, b in zip(found, results):
            assert a.detach().numpy().dtype == b.dtype
            np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-4, atol=1e-5)


def test_lists_of_tensors_lack_some_only_where_they_may():
    x = facula.rand(2, 3)
    with pytest.raises(TypeError, match=r"argument 'tensors' is a Tensor\[\]"):
        facula.ops.aten.cat.default([None, x])
    lines = ['input user "x" %x: float32[2, 3]', "%y: float32[4, 3] = cat.default([none, %x], 0)", "return %y"]
    with pytest.raises(ValueError, match="another value than a Tensor.* for 'tensors'"):
        _C._Program.parse("\n".join(lines)).verify()
    lines[1] = "%y: float32[2] = index.Tensor(%x, [none, %i])"
    lines.insert(1, 'input user "i" %i: int64[1]')
    index = facula.tensor([1])
    close(_C._Program.parse("\n".join(lines)).run([x, index])[0], x[:, index])


def test_mutated_archives_never_crash(net):
    data = saved(export.export(net, (facula.randn(5, 8),))).getvalue()
    rng = np.random.default_rng(7)
    model = next(i for i in zipfile.ZipFile(io.BytesIO(data)).infolist() if i.filename.endswith("model.json"))
    loaded = 0
    for round in range(300):
        broken = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(data))) if round % 2 else int(rng.integers(model.header_offset + 60, model.header_offset + model.file_size))
            broken[at] = int(rng.integers(256))
        if round % 2 == 0:  # past the sum of the zip: the JSON itself
            with zipfile.ZipFile(io.BytesIO(data)) as old:
                text = bytearray(old.read(model))
            for _ in range(int(rng.integers(1, 5))):
                at = int(rng.integers(len(text)))
                text[at : at + 1] = bytes(rng.choice(list(b'0129"[]{}:,-ea_.'), int(rng.integers(3))).tolist())
            broken = changed(io.BytesIO(data), "models/model.json", lambda _, text=text: bytes(text)).getvalue()
        try:
            export.load(io.BytesIO(bytes(broken)))._run(facula.randn(5, 8))
            loaded += 1
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            pass
    assert 0 < loaded < 300


def test_programs_that_are_damaged_are_of_every_kind(tmp_path):
    """Those of the fuzzer in C++: what they hold, and that they are programs."""
    programs.main(tmp_path / "programs.zip")
    words = ["cond", "while_loop", "map_impl", "scan", "wrap_with_set_grad_enabled", "buffer_mutation", "gradient_to_parameter", "Symbol("]
    stored = Path(__file__).parent / "data" / "pytorch_programs.zip"
    for path, missing in ((tmp_path / "programs.zip", set()), (stored, {"gradient_to_parameter"})):
        found = set()
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith(".pt2"):
                    continue
                export.load(io.BytesIO(archive.read(name)))
                inner = zipfile.ZipFile(io.BytesIO(archive.read(name)))
                model = next(inner.read(n).decode() for n in inner.namelist() if "/models/" in n)
                found |= {word for word in words if word in model}
        assert set(words) - found == missing


def test_a_program_is_saved_over_its_file_or_the_file_stays_as_it_was(tmp_path, monkeypatch):
    facula.manual_seed(0)
    net, x = nn.Linear(300, 40), facula.randn(2, 300)
    path = tmp_path / "net.pt2"
    export.save(export.export(net, (x,)), path)
    loaded = export.load(path)
    for _ in range(2):
        export.save(loaded, path)
        close(loaded.module()(x), net(x))
        close(export.load(path).module()(x), net(x))
    monkeypatch.setattr(export._pt2, "_tensor_bytes", None)
    with pytest.raises(TypeError):
        export.save(loaded, path)
    close(export.load(path).module()(x), net(x))
    assert [p.name for p in tmp_path.iterdir()] == ["net.pt2"]


def test_a_generator_lives_as_long_as_the_program_that_draws_from_it():
    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = facula.Generator().manual_seed(3)

        def forward(self, x):
            return x + facula.rand(3, generator=self.own)

    net = Noise()
    ep = export.export(net, (facula.zeros(3),))
    assert "generator" in str(ep)
    state = net.own.get_state()
    expected = net(facula.zeros(3))
    net.own.set_state(state)
    del net
    others = [facula.Generator().manual_seed(i) for i in range(100)]  # would take the place of one that went
    close(ep._run(facula.zeros(3)), expected)
    assert len(others) == 100
