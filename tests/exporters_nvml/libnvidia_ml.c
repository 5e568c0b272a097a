/* A stand-in for NVIDIA's libnvidia-ml.so.1, for machines without a GPU.
 *
 * It has the functions that the sidecar calls and answers from the control file named by the
 * environment variable NVML_SHIM_CONTROL, which may be replaced (by rename) at any time:
 *
 *   driver=0                       the driver is not loaded
 *   reload=7                       another number: the driver was reloaded, old sessions are dead
 *   gpus=8                         how many GPUs the driver enumerates
 *   gpu.power=300000               for every GPU; milliwatts
 *   gpu2.power=200000,400000       for GPU 2 alone; a list gives one value per call, in turns
 *   gpu.energy=81000000            millijoules
 *   gpu.reasons=0x84               bit mask of clock event reasons
 *   gpu.ecc=0,0,12,1               volatile corrected, uncorrected, aggregate corrected, uncorrected
 *   gpu.remap=1,0,0,0              correctable, uncorrectable, pending, failure
 *   gpu0.mig=3                     number of MIG instances; 0: MIG is off; absent: not supported
 *   gpu0.uuid=GPU-...              another UUID than the made-up one
 *   gpu0.lost=1                    the GPU has fallen off the bus
 *   gpu0.xids=31,31,79             XIDs in order; those added since the registration are delivered
 *   error.FUNCTION=999             the function returns this code; also as gpu0.error.FUNCTION
 *   hang.FUNCTION=1                the function returns only when this is gone; also as gpu0.hang...
 *
 * What a GPU has no value for, it does not support. Built with -DOLD_DRIVER, the functions that came
 * after the first drivers with a power reading are missing.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    UNKNOWN = 999,
};

#define MAX_GPUS 16
#define MAX_INSTANCES 7
#define MAX_ENTRIES 512
#define NODE_WIDE (-1)
#define POLL_MS 50
#define XID_EVENT 8ULL

typedef struct {
    int gpu;
    int instance; /* NODE_WIDE for the physical GPU */
    int power_calls;
    int registered;
    int delivered;
} Device;

typedef struct {
    Device *device;
    unsigned long long type;
    unsigned long long data;
    unsigned int gpu_instance;
    unsigned int compute_instance;
} EventData;

typedef struct {
    char key[96];
    char value[160];
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Entry entries[MAX_ENTRIES];
static int entry_count;
static struct timespec read_at;
static ino_t read_inode;

static Device gpus[MAX_GPUS];
static int sessions;
static long session_generation;
static int event_set;

/* ---- the control file ---- */

static void reread_if_changed(void) {
    const char *path = getenv("NVML_SHIM_CONTROL");
    struct stat status;
    if (path == NULL || stat(path, &status) != 0)
        return;
    if (status.st_ino == read_inode && status.st_mtim.tv_sec == read_at.tv_sec &&
        status.st_mtim.tv_nsec == read_at.tv_nsec)
        return;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    char line[sizeof(Entry)];
    entry_count = 0;
    while (entry_count < MAX_ENTRIES && fgets(line, sizeof line, file) != NULL) {
        Entry *entry = &entries[entry_count];
        if (sscanf(line, "%95[^=]=%159[^\n]", entry->key, entry->value) == 2)
            entry_count++;
    }
    fclose(file);
    read_inode = status.st_ino;
    read_at = status.st_mtim;
}

static int find(const char *key, char *value) {
    for (int i = 0; i < entry_count; i++)
        if (strcmp(entries[i].key, key) == 0) {
            strcpy(value, entries[i].value);
            return 1;
        }
    return 0;
}

/* The text of `key` for a GPU: its own, else that for every GPU. NODE_WIDE: the bare key. */
static int text_of(int gpu, const char *key, char *value) {
    char full[128];
    pthread_mutex_lock(&lock);
    reread_if_changed();
    int found = 0;
    if (gpu == NODE_WIDE) {
        found = find(key, value);
    } else {
        snprintf(full, sizeof full, "gpu%d.%s", gpu, key);
        found = find(full, value);
        if (!found) {
            snprintf(full, sizeof full, "gpu.%s", key);
            found = find(full, value);
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static long long number_of(int gpu, const char *key, long long otherwise) {
    char value[160];
    return text_of(gpu, key, value) ? strtoll(value, NULL, 0) : otherwise;
}

/* Comma-separated numbers of `key`; how many there are, 0 when the key is absent. */
static int list_of(int gpu, const char *key, unsigned long long *numbers, int limit) {
    char value[160], *rest = value;
    int count = 0;
    if (!text_of(gpu, key, value))
        return 0;
    for (char *word; count < limit && (word = strsep(&rest, ",")) != NULL;)
        numbers[count++] = strtoull(word, NULL, 0);
    return count;
}

/* ---- faults ---- */

static int fault_of(int gpu, const char *function) {
    char key[96];
    snprintf(key, sizeof key, "hang.%s", function);
    while (number_of(gpu, key, 0))
        usleep(20000);
    snprintf(key, sizeof key, "error.%s", function);
    return (int)number_of(gpu, key, SUCCESS);
}

static int node_call(const char *function) {
    int fault = fault_of(NODE_WIDE, function);
    if (fault != SUCCESS)
        return fault;
    if (sessions == 0)
        return UNINITIALIZED;
    if (!number_of(NODE_WIDE, "driver", 1))
        return DRIVER_NOT_LOADED;
    return number_of(NODE_WIDE, "reload", 0) == session_generation ? SUCCESS : UNKNOWN;
}

static int device_call(const Device *device, const char *function) {
    int result = fault_of(device->gpu, function);
    if (result == SUCCESS)
        result = node_call(function);
    if (result == SUCCESS && number_of(device->gpu, "lost", 0))
        result = GPU_IS_LOST;
    return result;
}

#define NODE_CALL()                         \
    do {                                    \
        int result = node_call(__func__);   \
        if (result != SUCCESS)              \
            return result;                  \
    } while (0)

#define DEVICE_CALL(device)                          \
    do {                                             \
        int result = device_call(device, __func__);  \
        if (result != SUCCESS)                       \
            return result;                           \
    } while (0)

/* ---- the session ---- */

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    int fault = fault_of(NODE_WIDE, __func__);
    if (fault != SUCCESS)
        return fault;
    if (!number_of(NODE_WIDE, "driver", 1))
        return DRIVER_NOT_LOADED;
    if (sessions++ == 0)
        session_generation = number_of(NODE_WIDE, "reload", 0);
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (sessions == 0)
        return UNINITIALIZED;
    sessions--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    (void)code;
    return "an error that the stand-in was told to return";
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    NODE_CALL();
    snprintf(version, length, "570.00");
    return SUCCESS;
}

/* ---- devices ---- */

int nvmlDeviceGetCount_v2(unsigned int *count) {
    NODE_CALL();
    *count = (unsigned int)number_of(NODE_WIDE, "gpus", 0);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    NODE_CALL();
    if (index >= MAX_GPUS || index >= number_of(NODE_WIDE, "gpus", 0))
        return INVALID_ARGUMENT;
    *device = &gpus[index];
    gpus[index].gpu = (int)index;
    gpus[index].instance = NODE_WIDE;
    return device_call(&gpus[index], __func__);
}

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned int length) {
    DEVICE_CALL(device);
    char given[160];
    if (device->instance != NODE_WIDE)
        snprintf(uuid, length, "MIG-%08d-0000-0000-0000-%012d", device->gpu, device->instance);
    else if (text_of(device->gpu, "uuid", given))
        snprintf(uuid, length, "%s", given);
    else
        snprintf(uuid, length, "GPU-%08d-0000-0000-0000-000000000000", device->gpu);
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned int *milliwatts) {
    unsigned long long turns[16];
    DEVICE_CALL(device);
    int count = list_of(device->gpu, "power", turns, 16);
    if (count == 0)
        return NOT_SUPPORTED;
    *milliwatts = (unsigned int)turns[device->power_calls++ % count];
    return SUCCESS;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *millijoules) {
    DEVICE_CALL(device);
    return list_of(device->gpu, "energy", millijoules, 1) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned int *correctable,
                              unsigned int *uncorrectable, unsigned int *pending,
                              unsigned int *failure) {
    unsigned long long state[4];
    DEVICE_CALL(device);
    if (list_of(device->gpu, "remap", state, 4) != 4)
        return NOT_SUPPORTED;
    *correctable = (unsigned int)state[0];
    *uncorrectable = (unsigned int)state[1];
    *pending = (unsigned int)state[2];
    *failure = (unsigned int)state[3];
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(Device *device, unsigned long long *reasons) {
    DEVICE_CALL(device);
    return list_of(device->gpu, "reasons", reasons, 1) ? SUCCESS : NOT_SUPPORTED;
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    DEVICE_CALL(device);
    return list_of(device->gpu, "reasons", reasons, 1) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetTotalEccErrors(Device *device, int type, int counter,
                                unsigned long long *errors) {
    unsigned long long all[4];
    DEVICE_CALL(device);
    if (list_of(device->gpu, "ecc", all, 4) != 4)
        return NOT_SUPPORTED;
    *errors = all[2 * counter + type];
    return SUCCESS;
}

/* ---- MIG ---- */

#ifndef OLD_DRIVER
static Device instances[MAX_GPUS][MAX_INSTANCES];

int nvmlDeviceGetMigMode(Device *device, unsigned int *current, unsigned int *pending) {
    DEVICE_CALL(device);
    long long count = number_of(device->gpu, "mig", -1);
    if (count < 0)
        return NOT_SUPPORTED;
    *current = *pending = count > 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned int *count) {
    DEVICE_CALL(device);
    *count = MAX_INSTANCES;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned int index, Device **instance) {
    DEVICE_CALL(device);
    if (index >= MAX_INSTANCES || index >= number_of(device->gpu, "mig", 0))
        return NOT_FOUND;
    *instance = &instances[device->gpu][index];
    (*instance)->gpu = device->gpu;
    (*instance)->instance = (int)index;
    return SUCCESS;
}
#endif

/* ---- events ---- */

int nvmlEventSetCreate(int **set) {
    NODE_CALL();
    *set = &event_set;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, int *set) {
    unsigned long long xids[64];
    (void)set;
    DEVICE_CALL(device);
    if (!(types & XID_EVENT))
        return NOT_SUPPORTED;
    device->registered = 1;
    device->delivered = list_of(device->gpu, "xids", xids, 64);
    return SUCCESS;
}

int nvmlEventSetWait_v2(int *set, EventData *data, unsigned int milliseconds) {
    unsigned long long xids[64];
    (void)set;
    for (unsigned int waited = 0;; waited += POLL_MS) {
        NODE_CALL();
        for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
            Device *device = &gpus[gpu];
            if (!device->registered || device->delivered >= list_of(gpu, "xids", xids, 64))
                continue;
            *data = (EventData){device, XID_EVENT, xids[device->delivered++], ~0u, ~0u};
            return SUCCESS;
        }
        if (waited >= milliseconds)
            return TIMEOUT;
        usleep(POLL_MS * 1000);
    }
}

int nvmlEventSetFree(int *set) {
    (void)set;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        gpus[gpu].registered = 0;
    return SUCCESS;
}
