"""What agents say of tasks: why one could not begin, how it ended, why there is no SSH into it."""

from __future__ import annotations

from nodes.protocol.wording import Wording

WORDS = Wording("words", "%(text)s")
"""Words of others: of a program, an Engine, or an agent that says no code."""

# ---------------------------------------------------------------- ends

ENDED_WELL = Wording("node_ended_well", "it ended well")
TOO_MUCH_MEMORY = Wording("node_memory", "it used more memory than its limit")
ONE_TOO_MUCH_MEMORY = Wording("node_memory_one", "%(end)s; one of its processes used more memory than its limit")
FAULTY_GPU = Wording("node_gpu_fault", "%(fault)s; %(end)s")
STILL_THERE = Wording("node_unkillable", "it is still there 2 minutes after SIGKILL")
NOT_EXECUTABLE = Wording("node_exit_126", "a command is not executable (exit status 126)")
NOT_FOUND = Wording("node_exit_127", "a command was not found (exit status 127)")
NOT_STARTED = Wording("node_exit_128", "it could not be started (exit status 128)")
FAILED = Wording("node_exit", "its command failed with exit status %(code)s")
KILLED = Wording("node_signal", "killed by %(signal)s")
STOPPED_BEFORE = Wording("node_stopped_before", "stopped before it started")
STOPPED = Wording("node_stopped", "stopped: %(reason)s")
NOBODY_SAW = Wording("node_unseen", "the container ended and nobody saw how")
CONTAINER_GONE = Wording("node_container_gone", "its container is gone without our doing")
UNKNOWN_HERE = Wording("node_unknown", "its server knows nothing of it any more")
FOLDER_GONE = Wording("node_folder_gone", "its folder is gone")
STATUS_LOST = Wording(
    "node_status_lost", "the container engine was started anew when it ended, and does not know its exit status"
)
FORGOTTEN = Wording(
    "node_forgotten", "the container engine was started anew as it began this task, and does not know it any more"
)

# ---------------------------------------------------------------- what stood in the way

GPU_HELD = Wording("node_gpu_held", "a GPU of this task is still held by %(other)s")
NAME_TAKEN = Wording("node_name_taken", "a container of another owner is named %(name)s")
OTHER_AGENT = Wording("node_other_agent", "another node's agent has this attempt in its hands")
PORT_TAKEN = Wording("node_port_taken", "host port %(port)s is in use on this node")
DISK_FULL = Wording("node_disk_full", "the disk for containers is full: this node takes nothing new")
NO_PROCESS = Wording("node_no_process", "its process could not be started: %(why)s")
NO_COMMAND = Wording("node_no_command", "the command could not be started: %(why)s")
NO_WRAPPER = Wording("node_no_wrapper", "the wrapper of the process did not start")
LAYER_FULL = Wording(
    "node_layer_full", "its container wrote %(taken)s outside all storages, more than the %(most)s that are allowed"
)

# ---------------------------------------------------------------- images

IMAGE_HERE = Wording("node_image_here", "the image here is %(digest)s, the other tasks run %(other)s")
IMAGE_OTHER = Wording("node_image_other", "%(image)s is %(digest)s here, the other tasks run %(other)s")
IMAGE_GONE = Wording("node_image_gone", "the image %(image)s is gone after its pull")
IMAGE_AWAY = Wording("node_image_away", "the image %(image)s cannot be fetched: %(why)s")
NO_IMAGE = Wording("node_no_image", "there is no image %(image)s: %(why)s")
NO_SPACE = Wording("node_no_space", "no space for the image %(image)s")
REGISTRY_REFUSED = Wording("node_registry_refused", "the registry refused %(image)s: %(why)s")
REGISTRY_ANSWERS = Wording("node_registry_answers", "the registry of %(image)s answers %(code)s: %(why)s")
OTHER_PROCESSORS = Wording("node_platform", "%(image)s is not made for this node's processors: %(why)s")
NO_SHELL = Wording("node_no_shell", "its image has no /bin/sh")
OTHER_SHELL = Wording("node_other_shell", "its image's /bin/sh is not made for this node's processors")
OTHER_LOGIN = Wording("node_other_login", "the login is for %(registry)s, but the image comes from %(other)s")

# ---------------------------------------------------------------- the node's policy

NOT_ALLOWED = Wording("node_not_allowed", "the node's policy does not allow %(what)s")
THE_IMAGE = Wording("node_the_image", "the image %(image)s")
THE_PROFILE = Wording("node_the_profile", "the profile %(profile)s")
ROOT_AS_USER = Wording("node_uid_0", "uid 0 under the profile user")
THE_NETWORK = Wording("node_the_network", "the network %(network)s")
MOUNTS_FROM = Wording("node_mounts_from", "mounts from %(root)s")

# ---------------------------------------------------------------- code, storages and folders

CODE_GONE = Wording("node_code_gone", "the portal has its code no more: submit it again with its folder")
CODE_OTHER = Wording("node_code_other", "its code arrived %(tries)s times with another content than it was sent")
NOT_KEPT = Wording("node_code_not_kept", "its code cannot be kept: %(why)s")
NOT_UNPACKED = Wording("node_code_not_unpacked", "its code cannot be unpacked: %(why)s")
NOT_OFFERED = Wording("node_storage_not_offered", "storage %(name)s is not offered here now")
NOT_MOUNTED = Wording("node_storage_not_mounted", "storage %(name)s is not mounted at %(root)s")
NO_FOLDER = Wording("node_storage_no_folder", "storage %(name)s has no folder %(path)s")
STORAGE_FAILED = Wording("node_storage_failed", "storage %(name)s: %(why)s at %(root)s")
NOT_BELOW = Wording("node_not_below", "%(path)s does not lie below storage %(name)s")
NOWHERE = Wording("node_nowhere", "the %(what)s lies in no folder that the task may use")
CHECKPOINT = Wording("node_checkpoint", "checkpoint file")
LEASE = Wording("node_lease", "lease")
STEPS = Wording("node_steps", "file of steps")
NOT_PLAIN = Wording("node_not_plain", "%(step)s in %(path)s is no plain folder")
NOT_PLAIN_FOR = Wording("node_not_plain_for", "%(path)s cannot be used: %(step)s is no plain folder (%(why)s)")
NOT_MADE = Wording("node_folder_not_made", "the folder %(name)s cannot be made: %(why)s")
NOT_GIVEN = Wording("node_folder_not_given", "the folder %(name)s cannot be given to uid %(uid)s: %(why)s")
SQUASHED = Wording(
    "node_folder_squashed",
    "the folder %(name)s cannot be given to uid %(uid)s: export storage %(storage)s to this server with "
    "no_root_squash, or make the folder beforehand",
)
IS_ROOTS = Wording(
    "node_folder_roots",
    "%(path)s is root's, and uid %(uid)s cannot use it: give it away (chown %(owner)s), or delete it where it is empty",
)
BY_USERS = Wording(
    "node_folder_users",
    "%(path)s can be written by users, who could put a link in place of a folder there: make it root's (%(commands)s)",
)
LINK_LEADS = Wording(
    "node_link_leads",
    "in its image a link leads from %(path)s to %(place)s, where nothing is mounted; name that path, or take an image "
    "without the link",
)
USERS_THERE = Wording(
    "node_users_there", "nothing can be mounted at %(path)s: users of the container are written there"
)
NOT_LOOKED_AT = Wording("node_not_looked_at", "%(path)s cannot be looked at: %(why)s")
LINK_OR_FILE = Wording(
    "node_link_or_file", "%(path)s cannot be mounted: what lies there in %(folder)s is a link or a file"
)

# ---------------------------------------------------------------- SSH

NO_CONTAINER = Wording("node_ssh_process", "SSH is for containers, and this node runs tasks as plain processes")
NO_SHELLS = Wording("node_ssh_forbidden", "this node allows no shells, and so no SSH")
NO_SERVER = Wording("node_ssh_not_started", "its SSH server could not be started")

# ---------------------------------------------------------------- parking

PARK_OFF = Wording("node_park_off", "this server's settings allow no parking (BERTH_NODE_PARK_GB)")
PARK_RUNTIME = Wording("node_park_runtime", "this server runs tasks as plain processes, and only containers are parked")
PARK_SIMULATED = Wording("node_park_simulated", "this server's GPUs are simulated")
PARK_PROCESSOR = Wording("node_park_processor", "parking works on x86-64 alone, and this server has %(processor)s")
PARK_ROOT = Wording("node_park_root", "this server's agent is not root")
PARK_PIDS = Wording(
    "node_park_pids", "this server's agent does not see the server's processes: run it with the host's (pid: host)"
)
PARK_DRIVER = Wording("node_park_driver", "parking needs NVIDIA's driver 580 or newer, and this server has %(driver)s")
PARK_MPS = Wording("node_park_mps", "CUDA's Multi-Process Service runs on this server, and what uses it is not parked")
PARK_MIG = Wording("node_park_mig", "its GPU is in MIG mode, in which nothing is parked")
PARK_LIBRARY = Wording(
    "node_park_library",
    "this server's agent cannot load libcuda.so.1: %(why)s (in a container it needs "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
)
PARK_CALLS = Wording("node_park_calls", "CUDA on this server cannot park a process: %(call)s answers %(code)s")
PARK_GPUS = Wording("node_park_gpus", "it has %(count)s GPUs, and only a task with one is parked")
PARK_PROCESSES = Wording("node_park_processes", "%(count)s of its processes use its GPU, and only one can be parked")
PARK_UNREAD = Wording("node_park_unread", "its GPU's driver does not tell which processes use it")
PARK_ROOM = Wording(
    "node_park_room", "its %(mb)s MB on the GPU need as much of its server's memory, which has %(free)s MB"
)
PARK_LIMIT = Wording("node_park_limit", "the memory limit of its container cannot be raised: %(why)s")
PARK_BUSY = Wording("node_park_busy", "its GPU was still computing after %(seconds)s s")
PARK_REFUSED = Wording(
    "node_park_refused", "it uses what CUDA cannot park, such as managed memory (%(call)s answers %(code)s)"
)
PARK_FAILED = Wording("node_park_failed", "CUDA did not park it: %(call)s answers %(code)s")
PARK_SILENT = Wording("node_park_silent", "CUDA gave no answer to %(call)s")
PARK_LEFT = Wording("node_park_left", "memory on its GPU was not freed, held by process %(pids)s: it is not parked")
PARK_GPU_HELD = Wording("node_park_gpu_held", "its GPU is still held by %(other)s")
PARK_GPU_FULL = Wording("node_park_gpu_full", "its GPU has %(free)s MB free, and %(mb)s MB are needed to put it back")
PARK_LOST = Wording("node_park_lost", "it was parked and could not be put back on its GPU: %(call)s answers %(code)s")
PARK_BROKE = Wording("node_park_broke", "it ended while it was parked, or on its way to memory or back")
