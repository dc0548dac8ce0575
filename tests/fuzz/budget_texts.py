"""Random programs for `tests/fuzz/budget.py`: what they are made of, and how one is written.

All variables `v0`, `v1`, ... are matrices of `n` by `n`, so that every statement fits every other. Besides them there are leaves
that require gradients (`l0` to `l2`, and the rows `b0`, `b1`), `x0`, whose bytes NumPy can write to (`arrays[0]`), `x1`, which it
cannot, running statistics `mean` and `var`, places `i0`, modules and a generator `own`. The slots of a statement are those of
tests/compare/grammar.py, and `{w}`, a leaf. A statement is of one of three kinds:

| kind | what it changes | after a refused request |
|---|---|---|
| pure | which tensors the names stand for, generators | can be tried again |
| pass | also gradients of leaves | can be tried again when those were put back |
| else | more | ends the program |
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
from tests.compare import grammar  # noqa: E402

MAPS = "view(1, 4, n // 4, n)"
PURE = r"""
8 torch.{sin|tanh|sigmoid|relu|abs|cos|erf|square|neg|sign}({a})
6 F.{gelu|silu|softplus|elu|hardswish|mish|leaky_relu|logsigmoid|relu6|celu|selu|hardtanh|softsign|hardsigmoid|tanhshrink}({a})
2 torch.{sqrt({a}.abs() + 1)|log1p({a}.abs())|exp(-{a}.abs())|rsqrt({a}.abs() + 1)|clamp({a}, -1, 1)|pow({a}.abs() + 0.5, 1.5)}
8 {a} {*|+|-} {{b}|{w}|x0|x1|0.75}
4 {a} {*|+} {b0|b1|{b}.mean(0)|{b}[:1]|{b}.amax(1, keepdim=True)}
3 torch.{maximum|minimum|hypot|atan2|logaddexp}({a}, {b})
4 torch.{where({a} > 0, {a}, {b})|lerp({a}, {b}, 0.3)|lerp({a}, {b}, {c}.sigmoid())|addcmul({a}, {b}, {c}, value=0.5)|addcdiv({a}, {b}, {c}.abs() + 1)}
5 F.linear({a}, {w}, {b0|b1|None}) / n
5 {{a} @ {b}|torch.addmm({a}, {b}, {c})|torch.einsum('ij,kj->ik', {a}, {b})|{a}.t() @ {w}|torch.bmm({a}[None], {w}[None])[0]} / n
4 {a}.{softmax(-1) * n|log_softmax(0)|cumsum(0) / n|sort(1)[0]|topk(n, 0)[0]|flip(1)|roll(3, 0)|tril()|clone()}
3 {a} {-|*} {a}.{logsumexp|mean|amax|amin|var|std|norm|sum}(1, keepdim=True)
5 {a}.{t()|t().contiguous()|reshape(-1).view(n, n)|view(n, n)|detach()|to(torch.float64).sin().to({a}.dtype)|bfloat16().float()|contiguous()|expand(2, n, n).sum(0)}
4 torch.{cat([{a}[: n // 2], {b}[n // 2 :]])|stack([{a}, {b}]).mean(0)|cat({a}.chunk(2, 1)[::-1], 1)|stack({a}.unbind(0)[::-1])|cat([{a}, {b}])[n // 2 : n // 2 + n]}
4 F.{layer_norm({a}, (n,), b0, b1)|rms_norm({a}, (n,), b0)|normalize({a}, dim=1)|batch_norm({a}, None, None, b0, b1, True)}
3 F.{relu|relu6|leaky_relu|silu|hardtanh}(F.batch_norm({a}, None, None, {b0|None}, b1, True){|.add_({b})|.mul_({a})|.add_({b0|{b}}, alpha=0.5)}, inplace=True)
2 F.{relu|hardswish}(F.batch_norm({a}.MAPS, None, None, b0[:4], b1[:4], True){|.add_({b}.MAPS)}, inplace=True).reshape(n, n)
2 F.{group_norm({a}.view(4, n // 4, n), 1)|instance_norm({a}.view(4, n // 4, n))}.view(n, n)
5 F.conv2d({a}.MAPS, {w}.reshape(-1)[:144].view(4, 4, 3, 3), {None|b0[:4]}, padding=1).reshape(n, n)
2 F.conv2d(F.relu(F.conv2d({a}.MAPS, {w}.reshape(-1)[:144].view(4, 4, 3, 3), padding=1)), {w}.reshape(-1)[:16].view(4, 4, 1, 1)).reshape(n, n)
2 F.conv1d({a}.view(1, n, n), {w}.reshape(n, n, 1)).view(n, n) / n
3 F.interpolate(F.{max|avg}_pool2d({a}.MAPS, 2), scale_factor=2, mode='{nearest|bilinear}').reshape(n, n)
3 F.scaled_dot_product_attention({a}.MAPS, {b}.MAPS, {c}.MAPS{|, is_causal=True|, dropout_p=0.2}).reshape(n, n)
4 {F.embedding(i0[:, 0], {w})|{a}.gather(1, i0)|{a}.index_select(0, i0[0])|{a}[i0[1]]|{a}.index_add(0, i0[0], {b})|{a}.scatter_add(1, i0, {b})|{a}.masked_fill({b} > 0, 0.5)}
3 {F.cross_entropy({a}, i0[0])|F.mse_loss({a}, {b})|F.smooth_l1_loss({a}, {b})} * {c}
1 torch.{fft.fft({a}).real|linalg.solve({a} / n + 3 * torch.eye(n, dtype={a}.dtype), {b})|cdist({a}, {b}) / n|kron({a}[:2, :2], {b}[: n // 2, : n // 2])}
6 F.dropout({a}, {0.1|0.5})
5 {F.alpha_dropout({a}, 0.2, True)|F.dropout2d({a}.MAPS, 0.3).view(n, n)|F.rrelu({a}, training=True)|F.gumbel_softmax({a}, dim=1)|torch.bernoulli({a}.sigmoid()) * {b}}
4 {a} * torch.{rand_like({a})|randn(n, n)|empty(n, n).uniform_()|rand(n, n, generator=own)|empty(n, n).bernoulli_(0.5, generator=own)|empty(n, n).normal_()}
1 {a}[torch.randperm(n)]
4 checkpoint(lambda t: {t.sin().exp() * 0.2|F.dropout(t.tanh(), 0.3) * {w}|F.linear(t, {w}).relu() / n|t.mul(0.5).sigmoid_()}, {a}, use_reentrant={True|False})
5 {Doubles.apply({a})|Keeps.apply({a}, {b})|Counts.apply({a}, {w})[0]|Writes.apply({a} * 1)}
3 {lstm({a}.view(4, n // 4, n))[0].reshape(n, n)|cell({a}, {b})|attention({a}[None], {b}[None], {b}[None])[0][0]|encoder({a}[None])[0]}
1 torch.func.{grad(lambda t: (t.sin() * {b}.detach()).sum())|vmap(lambda t: t.tanh() * t.mean())}({a})
1 copy.deepcopy({w}) * {a}
2 first(torch.autograd.grad({a}{|.tanh()}.sum(), [{w}], {create_graph|retain_graph}=True, allow_unused=True), {b})
2 first(torch.autograd.grad(({a} * {b}).tanh().sum(), [{w}, b0], create_graph=True, allow_unused=True), {b})
"""
BLOCKS = r"""
3 with torch.no_grad():\n    {new} = {{a} * {b}|{a}.relu() + 1|F.dropout({a}, 0.5)|{a}.view(n, n)}
2 with torch.no_grad(), torch.enable_grad():\n    {new} = ({a} * {w}).tanh()
1 with torch.inference_mode():\n    {new} = {a} * 2\n{new} = {new}.clone()
3 with torch.autocast('cpu', torch.bfloat16):\n    {new} = (F.linear({a}, {w}) / n).{tanh()|relu()|softmax(1)}.float()
2 with saved_tensors_hooks({lambda t: t.clone()|lambda t: t.detach().numpy().copy()|lambda t: t}, torch.as_tensor):\n    {new} = ({a} * {w}).sigmoid() * {b}
1 with torch.autograd.graph.save_on_cpu():\n    {new} = {a}.exp().tanh() * {b}
2 {new}, {new2} = both(lambda: torch.sin({a}) * {b}, lambda: {b}.tanh() @ {w} / n)
3 log.append(saved({a}))
2 log.append(bits({{a}|{w}.grad|{a}.sum()}))
2 {a}.retain_grad()
3 {a}.register_hook(lambda g: {g * 0.5|None|g.clone()|g + 1|log.append(bits(g))|g * {w}.detach()})
1 {a}.grad_fn.register_hook(lambda inputs, outputs: None)
1 {a}.grad_fn.register_prehook(lambda outputs: tuple(g if g is None else g * 0.5 for g in outputs))
1 {w}.register_post_accumulate_grad_hook(lambda t: (t.grad.mul_(0.5), None)[1])
1 torch.{set_num_threads({1|2})|use_deterministic_algorithms({True|False})|set_default_dtype(torch.{float64|float32})|set_float32_matmul_precision('{high|highest}')}
5 squeeze({0.1|0.2|0.4|0.7|1.5|None})
2 kept.append({a}{|.detach()|.view(-1)})
1 kept.clear()
2 {new} = (kept.pop() if kept else {a}).reshape(-1)[: n * n].view(n, n) * 1
"""
PASSES = r"""
2 {new}, {new2} = both(lambda: first(gradients({a}), {b}), lambda: first(gradients({b}), {a}))
4 {a}.sum().backward(retain_graph=True)
2 ({a} * {b}).mean().backward(retain_graph=True)
2 torch.autograd.backward([{a}, {b}], [x1, {a}.detach()], retain_graph=True)
1 {a}.tanh().sum().backward(create_graph=True)
"""
ELSE = r"""
8 {a}.{mul_(0.9)|add_({b})|sub_(0.1)|mul_({b}.sigmoid())|div_({b}.abs() + 1)|addcmul_({b}, {c})|lerp_({b}, 0.5)|copy_({b})|clamp_(-1, 1)|masked_fill_({b} > 0, 0.5)}
6 {a}.{relu_|sigmoid_|tanh_|neg_|abs_|sin_|zero_|erf_}()
3 F.{relu|elu|hardswish|silu|leaky_relu}({a}, inplace=True)
3 {a}{[::2] = {b}[1::2]|[:, 1:] = {b}[:, :-1]|[1:, :3] = 0.25|[i0[0]] = {b}|[{b} > 0] = 0.5}
5 {a}[{1:|:, ::2|0|..., 3:7}].{mul_(0.5)|add_(1)|sigmoid_()|zero_()|exp_()}
4 {a}.{t()|view(-1)[3:]|view(4, n // 4, n)[1]|diagonal()|unsqueeze(0)|narrow(0, 1, 3)|detach()|data}.{mul_(0.5)|add_(0.1)|tanh_()}
2 {a}.{index_add_(0, i0[0], {b})|scatter_add_(1, i0, {b})|index_fill_(0, i0[0, :2], 0.5)|t_()}
3 {a}.{uniform_(-1, 1)|normal_()|bernoulli_(0.5)|add_(torch.rand(n, n))}
3 F.dropout({a}, 0.3, inplace=True)
4 with torch.no_grad():\n    {{w}|x0|x1|b0|{a}}.{mul_(0.9)|add_(0.01)|neg_()|clamp_(-1, 1)}
2 {{w}|x0|x1}.data.{mul_(0.9)|add_(0.01)|copy_({a}.detach())}
3 arrays[0][{1:|:, 2|...}] *= 0.5
2 {a}.detach().numpy()[{1|...}] = 0.25
2 arrays.append({a}.detach().numpy())
2 arrays[-1][...] *= 0.75
2 torch.from_dlpack({a}.detach()).{mul_(0.5)|zero_()}
1 {a}.detach().untyped_storage().copy_({b}.detach().contiguous().clone().untyped_storage())
1 {{w}|x1}.data = {b}.detach().clone()
1 {a}.detach().set_({b}.detach().clone())
3 torch.optim.{SGD(leaves, 0.01, momentum=0.9)|AdamW(leaves, 0.001)}.step()
2 for leaf in leaves:\n    leaf.grad = None
4 {new} = F.batch_norm({a}, mean, var, b0, b1, True)
4 {new} = convolutions({a}.MAPS).reshape(n, n)
2 with saved_tensors_hooks(lambda t: (kept.append(t.detach()), t)[1], lambda t: t):\n    {new} = ({a} * {w}).sigmoid() * {b}
1 ({a} * {b}).sum().backward()
1 {a}.sum().backward()
1 {a}.register_hook(raises)
2 {w}.requires_grad_({True|False})
""".replace("MAPS", MAPS)


def table(kind: str, text: str) -> list[tuple[int, str, str]]:
    """(weight, kind, template) of each line."""
    lines = [line.partition(" ") for line in text.replace("MAPS", MAPS).strip().split("\n")]
    return [(int(weight), kind, template.replace("\\n", "\n")) for weight, _, template in lines]


TABLE = table("results", PURE) + table("pure", BLOCKS) + table("pass", PASSES) + table("else", ELSE)
MOST_NAMES = 6


class Program(grammar.Writer):
    """Writes one program: a list of [kind, statement]. Most results take the name of an operand, so that only graphs hold that."""

    def program(self) -> list[list[str]]:
        self.made = 0
        lines = [
            ["pure", f"{self.new()} = l0 * 1"],
            ["pure", f"{self.new()} = F.linear(x0, l1)"],
            ["pure", f"{self.new()} = (l2 + x1).tanh()"],
        ]
        for _ in range(self.random.randint(6, 30)):
            lines.append(self.statement())
            if len(self.names) > 2 and self.random.random() < (0.8 if len(self.names) > MOST_NAMES else 0.1):
                lines.append(["pure", f"del {self.names.pop(self.random.randrange(len(self.names)))}"])
        whole = [["pass", "total(globals()).backward(retain_graph=True)"]]
        each = [["pass", f"{name}.sum().backward(retain_graph=True)"] for name in self.names]
        ends = [whole, each] if self.random.random() < 0.5 else [each, whole]
        return [*lines, *ends[0], ["pure", "squeeze(None)"], *ends[1]]

    def new(self) -> str:
        self.made += 1
        self.names.append(f"v{self.made - 1}")
        return self.names[-1]

    def statement(self) -> list[str]:
        part = self.random.choices(("results", "pure", "pass", "else"), (68, 10, 4, 18))[0]
        rows = [row for row in TABLE if row[1] == part]
        _, kind, template = self.random.choices(rows, [row[0] for row in rows])[0]
        if kind == "results":
            name = self.random.choice(self.names) if self.random.random() < 0.7 else None
            text = self.fill(template)
            return ["pass" if "grad" in text else "pure", f"{name or self.new()} = {text}"]
        return [kind, self.fill(template)]

    def slot(self, name: str, given: dict[str, str]) -> str:
        if name == "w":
            return self.random.choice(("l0", "l1", "l2"))
        return super().slot(name, given)


DRAWS = re.compile(r"dropout|rand|bernoulli|normal_|uniform|rrelu|gumbel|encoder|attention\(")
