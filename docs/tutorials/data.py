# %% [markdown]
# # Loading data
#
# A dataset returns samples by number, a sampler chooses their order, and a loader makes batches. Worker processes load
# batches in advance.

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
# A dataset needs `__len__` and `__getitem__`. Samples may be tensors, arrays, numbers, and dicts or tuples of these.
# The loader stacks each part.


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
# `num_workers` processes load batches in advance, and their tensors arrive in shared memory. With
# `multiprocessing_context="threads"` workers are threads of this process. Then nothing is copied and they start at
# once, which pays off if NumPy, files or Facula make the samples.

# %%
for context in ("fork", "threads"):
    loader = DataLoader(training, batch_size=20, num_workers=2, multiprocessing_context=context)
    print(context, [tuple(batch["wave"].shape) for batch in loader])

# %% [markdown]
# An error in a worker is raised in the main process, with the worker's traceback.


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
# `collate_fn` makes a batch out of samples.

# %%
words = [torch.arange(n) for n in (3, 1, 4, 2)]


def pad(samples):
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True, padding_value=-1), torch.tensor([len(s) for s in samples])


next(iter(DataLoader(words, batch_size=4, collate_fn=pad)))

# %% [markdown]
# ## Streams
#
# A stream has neither a length nor numbered samples. With workers, each has a copy of the dataset and takes its share
# with the help of `get_worker_info`.


# %%
class Count(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter(range(info.id, 9, info.num_workers) if info else range(9))


[batch.tolist() for batch in DataLoader(Count(), batch_size=3, num_workers=2, multiprocessing_context="threads")]

# %% [markdown]
# More: {doc}`torch.utils.data <../api/torch.utils.data>`.
