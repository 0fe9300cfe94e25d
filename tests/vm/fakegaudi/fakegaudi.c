// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/fakegaudi makes of a dma-buf (udmabuf's, of the stand-in for libhl-thunk) another one over
 * the same memory, which is as those of the habanalabs driver where an importer notices:
 *  - no mmap, no vmap: a CPU cannot reach it;
 *  - a scatter list of DMA addresses without page pointers: it need not be memory of Linux;
 *  - only for importers that allow peer-to-peer.
 */
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

/* The argument is the dma-buf's descriptor, the result that of the other one. */
#define FAKEGAUDI_WRAP _IO('G', 1)

MODULE_IMPORT_NS(DMA_BUF);
MODULE_DESCRIPTION("dma-bufs like an accelerator's, for tests");
MODULE_LICENSE("GPL");

static struct dma_buf* memory_of(const struct dma_buf* buf) {
  return buf->priv;
}

static int fake_attach(struct dma_buf* buf, struct dma_buf_attachment* attachment) {
  struct dma_buf_attachment* behind = dma_buf_attach(memory_of(buf), attachment->dev);

  if (IS_ERR(behind)) return PTR_ERR(behind);
  attachment->priv = behind;
  return 0;
}

static void fake_detach(struct dma_buf* buf, struct dma_buf_attachment* attachment) {
  dma_buf_detach(memory_of(buf), attachment->priv);
}

/* What is handed out, and the list of the memory behind it that it was made of. */
struct fake_table {
  struct sg_table table;
  struct sg_table* behind;
};

static int copy_addresses(struct fake_table* fake) {
  struct scatterlist *to, *from;
  int i, err = sg_alloc_table(&fake->table, fake->behind->nents, GFP_KERNEL);

  if (err) return err;
  to = fake->table.sgl;
  for_each_sgtable_dma_sg(fake->behind, from, i) {
    sg_set_page(to, NULL, sg_dma_len(from), 0);
    sg_dma_address(to) = sg_dma_address(from);
    sg_dma_len(to) = sg_dma_len(from);
    to = sg_next(to);
  }
  /* As the driver has it, for who goes over the pages: there are none. */
  fake->table.orig_nents = 0;
  return 0;
}

/* Both dma-bufs have one lock, which the importer holds. */
static struct sg_table* fake_map(struct dma_buf_attachment* attachment,
                                 enum dma_data_direction direction) {
  struct dma_buf_attachment* behind = attachment->priv;
  struct fake_table* fake;
  int err;

  if (!attachment->peer2peer) return ERR_PTR(-EPERM);
  fake = kzalloc(sizeof(*fake), GFP_KERNEL);
  if (!fake) return ERR_PTR(-ENOMEM);
  fake->behind = dma_buf_map_attachment(behind, direction);
  if (IS_ERR(fake->behind)) {
    err = PTR_ERR(fake->behind);
    goto out;
  }
  err = copy_addresses(fake);
  if (!err) return &fake->table;
  dma_buf_unmap_attachment(behind, fake->behind, direction);
out:
  kfree(fake);
  return ERR_PTR(err);
}

static void fake_unmap(struct dma_buf_attachment* attachment, struct sg_table* table,
                       enum dma_data_direction direction) {
  struct fake_table* fake = container_of(table, struct fake_table, table);

  dma_buf_unmap_attachment(attachment->priv, fake->behind, direction);
  table->orig_nents = table->nents; /* by which it is freed */
  sg_free_table(table);
  kfree(fake);
}

static void fake_release(struct dma_buf* buf) {
  dma_buf_put(memory_of(buf));
}

static const struct dma_buf_ops fake_ops = {
    .attach = fake_attach,
    .detach = fake_detach,
    .map_dma_buf = fake_map,
    .unmap_dma_buf = fake_unmap,
    .release = fake_release,
};

/* Takes over the reference to `memory`, unless it fails. */
static struct dma_buf* wrap(struct dma_buf* memory) {
  DEFINE_DMA_BUF_EXPORT_INFO(info);

  info.ops = &fake_ops;
  info.size = memory->size;
  info.flags = O_RDWR;
  info.resv = memory->resv;
  info.priv = memory;
  return dma_buf_export(&info);
}

static long fake_ioctl(struct file* file, unsigned int command, unsigned long argument) {
  struct dma_buf *memory, *buf;
  int fd;

  if (command != FAKEGAUDI_WRAP) return -ENOTTY;
  memory = dma_buf_get((int)argument);
  if (IS_ERR(memory)) return PTR_ERR(memory);
  buf = wrap(memory);
  if (IS_ERR(buf)) {
    dma_buf_put(memory);
    return PTR_ERR(buf);
  }
  fd = dma_buf_fd(buf, O_CLOEXEC);
  if (fd < 0) dma_buf_put(buf);
  return fd;
}

static const struct file_operations fake_files = {
    .owner = THIS_MODULE,
    .unlocked_ioctl = fake_ioctl,
};

static struct miscdevice fake_device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "fakegaudi",
    .fops = &fake_files,
    .mode = 0666,
};
module_misc_device(fake_device);
