"""CUDA graphs: capture, replay, memory pools, random numbers and graphed callables, on the emulated device or on a GPU."""

import subprocess
import sys
import textwrap

import pytest
from cuda_environment import environment

MODES = [{"FACULA_EMULATED_MODE": mode} for mode in ("async", "eager", "lazy")] + [{"FACULA_EMULATED_JITTER": "2000"}]
ORDERS = [{"FACULA_EMULATED_ORDER": order} for order in ("reverse", "random")]


def run(program, **more):
    """Return what the program prints, as lines; it has `facula`, `cuda` and `pytest`."""
    source = "import facula, pytest\nfrom facula import cuda, nn\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", source], env=environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", MODES + ORDERS)
def test_a_replay_does_what_was_captured(mode):
    assert run(
        """
        x = facula.arange(4.0).cuda()
        total = facula.zeros(4, device="cuda")
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            assert cuda.is_current_stream_capturing()
            y = x * 2 + 1
            total += y
        print(cuda.is_current_stream_capturing(), total.tolist())
        for i in range(3):
            x.fill_(i)
            g.replay()
        del x                           # its memory may be another tensor's, but not before it was read
        print(y.tolist(), total.tolist())
        g.reset()
        """,
        **mode,
    ) == ["False [0.0, 0.0, 0.0, 0.0]", "[5.0, 5.0, 5.0, 5.0] [9.0, 9.0, 9.0, 9.0]"]


@pytest.mark.parametrize("mode", MODES[:1] + MODES[2:3] + ORDERS)
def test_streams_fork_and_join_in_a_graph(mode):
    assert run(
        """
        x = facula.ones(64, device="cuda")
        g, side = cuda.CUDAGraph(), cuda.Stream()
        with cuda.graph(g):
            a = x + 1
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                b = a * 10
                b.add_(1)
            c = a * 100
            cuda.current_stream().wait_stream(side)
            d = b + c
        for value in (1.0, 4.0):
            x.fill_(value)
            g.replay()
            print(d.unique().tolist())
        with pytest.raises(RuntimeError, match="a stream that joined the capture was not joined.*UNJOINED"):
            with cuda.graph(cuda.CUDAGraph()):
                side.wait_stream(cuda.current_stream())
                with cuda.stream(side):
                    x * 2
        print((x + 1).sum().item())
        """,
        **mode,
    ) == ["[221.0]", "[551.0]", "320.0"]


def test_what_cannot_be_captured_says_so():
    assert run(
        """
        x = facula.ones(4, device="cuda")
        cpu = facula.zeros(4)
        for name, use in (("item", lambda: x.sum().item()), ("copy_", lambda: x.cpu()), ("nonzero", lambda: x.nonzero()),
                          ("copy_", lambda: x.copy_(cpu)), ("cuda", lambda: cuda.synchronize())):
            with pytest.raises(RuntimeError, match="graph is captured") as error:
                with cuda.graph(cuda.CUDAGraph()):
                    use()
            print(str(error.value).split(":")[0], cuda.is_current_stream_capturing())
        g = cuda.CUDAGraph()
        with pytest.raises(RuntimeError, match="a graph that was captured, got one that was not"):
            g.replay()
        with pytest.raises(RuntimeError, match="a stream of its own.*got the default stream"):
            g.capture_begin()
        with pytest.warns(UserWarning, match="nothing was captured"):
            with cuda.graph(g):
                pass
        with pytest.raises(RuntimeError, match="reset.. before, got one that was"):
            with cuda.graph(g):
                pass
        with pytest.raises(ZeroDivisionError):
            with cuda.graph(cuda.CUDAGraph()):
                1 / 0
        constant = cuda.CUDAGraph()
        with cuda.graph(constant):
            made = facula.tensor([1.0, 2.0], device="cuda") + 1
        constant.replay()
        print(made.tolist(), (x * 3).tolist())
        batch, back = facula.ones(4).pin_memory(), facula.empty(4).pin_memory()
        pinned = cuda.CUDAGraph()
        with cuda.graph(pinned):
            x.copy_(batch, non_blocking=True)
            back.copy_(x * 5, non_blocking=True)
        for i in range(2):
            batch.fill_(i)
            pinned.replay()
            cuda.synchronize()
            print(back.tolist())
        """
    ) == ["item False", "copy_ False", "nonzero False", "copy_ False", "synchronize False", "[2.0, 3.0] [3.0, 3.0, 3.0, 3.0]",
         "[0.0, 0.0, 0.0, 0.0]", "[5.0, 5.0, 5.0, 5.0]"]  # fmt: skip


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_memory_of_a_graph_is_not_given_to_others(settings):
    assert run(
        """
        cuda.empty_cache()
        x = facula.ones(1 << 18, device="cuda")
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            a = x * 2
            b = a * 3
            del a                                        # its block is the graph's still
            c = b + 1
        pool = g.pool()
        segments = cuda.memory_snapshot(pool)
        print(len(segments) > 0, all(s["segment_pool_id"] == pool for s in segments))
        inside = lambda t: any(s["address"] <= t.data_ptr() < s["address"] + s["total_size"] for s in segments)
        print(inside(b), inside(c), inside(x), any(inside(facula.zeros(1 << 18, device="cuda")) for _ in range(20)))
        others = [facula.full((1 << 18,), 7.0, device="cuda") for _ in range(4)]
        g.replay()
        print(c[0].item(), c[-1].item(), {o.sum().item() for o in others} == {7.0 * (1 << 18)})
        second = cuda.CUDAGraph()
        with cuda.graph(second, pool=pool):
            d = c + 1
        print(second.pool() == pool, (g.replay(), second.replay(), d[0].item())[-1])
        del b, c, d
        cuda.empty_cache()
        print(len(cuda.memory_snapshot(pool)) > 0)
        g.reset()
        cuda.empty_cache()
        print(len(cuda.memory_snapshot(pool)) > 0)
        second.reset()
        cuda.empty_cache()
        print(len(cuda.memory_snapshot(pool)))
        """,
        FACULA_CUDA_ALLOC_CONF=settings,
    ) == ["True True", "True True False False", "7.0 7.0 True", "True 8.0", "True", "True", "0"]


@pytest.mark.parametrize("mode", MODES)
def test_random_numbers_go_on_with_every_replay(mode):
    assert run(
        """
        x = facula.ones(1000, device="cuda")
        own = facula.Generator(device="cuda")

        def draw():
            return facula.rand(300, device="cuda"), nn.functional.dropout(x, 0.3), facula.randn(50, device="cuda", generator=own)

        facula.manual_seed(11), own.manual_seed(12)
        eager = [[t.tolist() for t in draw()] for _ in range(4)]
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            results = draw()
        facula.manual_seed(11), own.manual_seed(12)
        replayed = []
        for i in range(4):
            if i == 2:
                replayed.append([t.tolist() for t in draw()])     # without the graph, in between
                continue
            g.replay()
            replayed.append([t.tolist() for t in results])
        print(replayed == eager, eager[0] != eager[1])
        """,
        **mode,
    ) == ["True True"]


def test_a_step_of_training_is_captured():
    assert run(
        """
        def train(graphed):
            facula.manual_seed(0)
            model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
            optimizer = facula.optim.SGD(model.parameters(), lr=0.1)
            data = [(facula.randn(5, 6).cuda(), facula.randn(5, 1).cuda()) for _ in range(6)]
            x, y = data[0][0].clone(), data[0][1].clone()

            def step():
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                return loss

            side = cuda.Stream()
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                for _ in range(2):
                    optimizer.zero_grad(set_to_none=True)
                    step()
            cuda.current_stream().wait_stream(side)
            if graphed:
                g = cuda.CUDAGraph()
                optimizer.zero_grad(set_to_none=True)
                with cuda.graph(g):
                    loss = step()
            losses = []
            for a, b in data:
                x.copy_(a), y.copy_(b)
                if graphed:
                    g.replay()
                else:
                    optimizer.zero_grad(set_to_none=True)
                    loss = step()
                losses.append(loss.item())
            return losses

        eager, graphed = train(False), train(True)
        print(max(abs(a - b) for a, b in zip(eager, graphed)) < 1e-6, len(set(eager)))
        """
    ) == ["True 6"]


def test_graphed_callables():
    assert run(
        """
        facula.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
        plain = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
        plain.load_state_dict(model.state_dict())
        f = lambda a, b: {"sum": a + b, "product": a * b}
        sample = facula.randn(5, 4, device="cuda", requires_grad=True)
        g, h = cuda.make_graphed_callables((model, f), ((sample,), (facula.randn(5, 3, device="cuda", requires_grad=True),
                                                                    facula.randn(5, 3, device="cuda"))))
        print(g is model)
        for i in range(3):
            x = facula.randn(5, 4, device="cuda", requires_grad=True)
            z = facula.randn(5, 3, device="cuda")
            for m, c in ((model, h), (plain, f)):
                out = c(m(x), z)
                (out["sum"] * 2 + out["product"]).sum().backward()
                if m is model:
                    mine, value = x.grad.clone(), out["product"].detach().clone()
                    x.grad = None
            # the plain module's gradients are added up over the steps, and so are the graphed one's
            close = [facula.allclose(p.grad.cpu(), q.grad.cpu(), atol=1e-5) for p, q in zip(model.parameters(), plain.parameters())]
            print(facula.allclose(mine.cpu(), x.grad.cpu(), atol=1e-5), facula.allclose(value.cpu(), out["product"].cpu(), atol=1e-5), all(close))
        model.eval()
        print(facula.equal(model(x).cpu(), plain(x).cpu()))
        with pytest.raises(TypeError, match="arguments as in the sample"):
            h(x)
        """
    ) == ["True"] + ["True True True"] * 3 + ["True"]


def test_a_graph_is_shown():
    assert run(
        """
        import tempfile, os
        x = facula.ones(4, device="cuda")
        g = cuda.CUDAGraph()
        g.enable_debug_mode()
        with cuda.graph(g):
            y = (x * 2).exp()
        path = os.path.join(tempfile.mkdtemp(), "g.dot")
        g.debug_dump(path)
        print(open(path).read().startswith("digraph"), g.raw_cuda_graph() > 0)
        with pytest.raises(RuntimeError, match="a path that can be written, got /nonexistent/g.dot"):
            g.debug_dump("/nonexistent/g.dot")
        other = cuda.CUDAGraph(keep_graph=True)
        with cuda.graph(other):
            z = x + 1
        other.instantiate()
        other.replay()
        print(z.tolist())
        """
    ) == ["True True", "[2.0, 2.0, 2.0, 2.0]"]


def test_streams_say_whether_they_are_captured_and_graphs_of_any_accelerator():
    assert run(
        """
        x = facula.zeros(4, device="cuda")
        side, other, g = facula.Stream(), cuda.Stream(), facula.accelerator.Graph()
        cuda.synchronize()
        with side, g:
            print(side.is_capturing(), other.is_capturing(), cuda.default_stream().is_capturing())
            x += 1
        print(side.is_capturing(), x.tolist())
        g.replay()
        g.replay()
        print(x.tolist(), isinstance(g, cuda.CUDAGraph))
        second = facula.accelerator.Graph(pool=g.pool(), capture_error_mode="thread_local")
        with side:
            second.capture_begin()
            y = x * 2
            second.capture_end()
        second.replay()
        print(y.tolist(), second.pool() == g.pool())
        assert second.raw_cuda_graph_exec() not in (0, g.raw_cuda_graph_exec())
        with pytest.raises(RuntimeError, match="raw_cuda_graph_exec: a graph that can be launched"):
            cuda.CUDAGraph().raw_cuda_graph_exec()
        with pytest.raises(RuntimeError, match="capture_error_mode must be "):
            facula.accelerator.Graph(capture_error_mode="none")
        facula.accelerator.empty_host_cache()
        """
    ) == ["True False False", "False [0.0, 0.0, 0.0, 0.0]", "[2.0, 2.0, 2.0, 2.0] True", "[4.0, 4.0, 4.0, 4.0] True"]
