# %% [markdown]
# # Loading data
#
# A dataset gives samples by number, a sampler the order, a loader batches; workers fetch ahead.

# %%
import facula as torch
from facula.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, random_split

torch.manual_seed(0)
pairs = TensorDataset(torch.arange(10), torch.arange(10) ** 2)
for numbers, squares in DataLoader(pairs, batch_size=4, shuffle=True):
    print(numbers.tolist(), squares.tolist())

# %% [markdown]
# ## A dataset of your own
#
# It needs `__len__` and `__getitem__`. Samples may be tensors, arrays, numbers, and dicts or tuples of them: the loader
# stacks each of their parts.


# %%
class Waves(Dataset):
    """Sine waves, with the frequency to be found."""

    def __init__(self, count, length=64):
        self.count, self.time = count, torch.linspace(0, 1, length)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        frequency = 1 + index % 8
        return {"wave": torch.sin(2 * torch.pi * frequency * self.time), "frequency": frequency}


training, testing = random_split(Waves(100), [80, 20])
batch = next(iter(DataLoader(training, batch_size=16)))
batch["wave"].shape, batch["frequency"]

# %% [markdown]
# ## Workers
#
# `num_workers` processes fetch batches ahead; their tensors arrive in shared memory.
# `multiprocessing_context="threads"` takes threads of this process: nothing is copied, and they start at once, which
# pays where the samples are made by NumPy, files or Facula.

# %%
for context in ("fork", "threads"):
    loader = DataLoader(training, batch_size=20, num_workers=2, multiprocessing_context=context)
    print(context, [tuple(batch["wave"].shape) for batch in loader])

# %% [markdown]
# An error in a worker is raised here, with the worker's traceback.


# %%
class Broken(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return 1 / (index - 1)


try:
    list(DataLoader(Broken(), num_workers=1, multiprocessing_context="threads"))
except ZeroDivisionError as error:
    print(str(error).strip().splitlines()[-1])

# %% [markdown]
# ## Samples of different length
#
# `collate_fn` says how samples become a batch.

# %%
words = [torch.arange(n) for n in (3, 1, 4, 2)]


def pad(samples):
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=-1), torch.tensor([len(s) for s in samples])


next(iter(DataLoader(words, batch_size=4, collate_fn=pad)))

# %% [markdown]
# ## Streams
#
# A stream has no length and no numbers. With workers, each has a copy of the dataset, and takes its share by
# `get_worker_info`.


# %%
class Count(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter(range(info.id, 9, info.num_workers) if info else range(9))


[batch.tolist() for batch in DataLoader(Count(), batch_size=3, num_workers=2, multiprocessing_context="threads")]

# %% [markdown]
# More: {doc}`torch.utils.data <../api/torch.utils.data>`.
