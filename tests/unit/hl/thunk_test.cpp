// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hl/thunk.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "mock_library.hpp"

namespace gaudi {
namespace {

using testing::_;
using testing::DoAll;
using testing::IsNull;
using testing::Return;
using testing::SetArgPointee;
using testing::SetErrnoAndReturn;
using testing::StrictMock;

class thunk : public testing::Test {
 protected:
  StrictMock<test::mock_library> library;
  hl::functions table = test::mock_library::table();
  hl::thunk call{table};
};

TEST_F(thunk, open_gives_the_descriptor) {
  EXPECT_CALL(library, open(hl::device_name::dont_care, IsNull())).WillOnce(Return(7));
  const auto fd = call.open(nullptr);
  ASSERT_TRUE(fd);
  EXPECT_EQ(*fd, 7);
}

TEST_F(thunk, open_reads_errno_behind_minus_one) {
  EXPECT_CALL(library, open(_, _)).WillOnce(SetErrnoAndReturn(EBUSY, -1));
  EXPECT_EQ(call.open(nullptr).code(), -FI_EBUSY);
}

TEST_F(thunk, open_passes_a_negative_code_on) {
  EXPECT_CALL(library, open(_, _)).WillOnce(SetErrnoAndReturn(ENOENT, -EINVAL));
  EXPECT_EQ(call.open("0000:19:00.0").code(), -FI_EINVAL);
}

TEST_F(thunk, minus_one_without_errno_is_eperm) {
  errno = EBUSY;  // left over from something else: must not be believed
  EXPECT_CALL(library, open(_, _)).WillOnce(Return(-1));
  EXPECT_EQ(call.open("0000:19:00.0").code(), -FI_EPERM);
}

TEST_F(thunk, zero_from_an_address_function_is_errno) {
  EXPECT_CALL(library, device_memory_alloc(3, 4096, 0, true, false))
      .WillOnce(SetErrnoAndReturn(ENOMEM, 0));
  EXPECT_EQ(call.allocate(3, 4096, true).code(), -FI_ENOMEM);
}

TEST_F(thunk, zero_without_errno_is_an_io_error) {
  errno = EBUSY;
  EXPECT_CALL(library, device_memory_map(3, 9, 0)).WillOnce(Return(0));
  EXPECT_EQ(call.map(3, 9).code(), -FI_EIO);
}

TEST_F(thunk, address_functions_give_their_value) {
  EXPECT_CALL(library, device_memory_map(3, 9, 0)).WillOnce(Return(0x1001001800000000));
  const auto va = call.map(3, 9);
  ASSERT_TRUE(va);
  EXPECT_EQ(*va, 0x1001001800000000U);
}

TEST_F(thunk, device_id_zero_is_no_device) {
  EXPECT_CALL(library, get_device_id_from_fd(5)).WillOnce(Return(0));
  EXPECT_EQ(call.device_id(5).code(), -FI_ENODEV);
}

TEST_F(thunk, hardware_reads_the_fields_where_they_are) {
  EXPECT_CALL(library, get_hw_ip_info(5, _)).WillOnce([](int, void* info) {
    auto* bytes = static_cast<char*>(info);
    const auto put = [&](int offset, auto value) {
      std::memcpy(bytes + offset, &value, sizeof value);
    };
    put(8, std::uint64_t{0x1001001800000000});
    put(16, std::uint64_t{127} * (768 << 20));
    put(32, std::uint32_t{0x1020});
    put(188, std::uint32_t{3});
    put(224, std::uint64_t{768 << 20});
    put(264, std::uint64_t{640 << 20});
    std::memset(bytes + 336, 0xff, 2048);  // a later release's tail
    return 0;
  });
  const auto info = call.hardware(5);
  ASSERT_TRUE(info);
  EXPECT_EQ(info->dram_base, 0x1001001800000000U);
  EXPECT_EQ(info->dram_size, std::uint64_t{127} * (768 << 20));
  EXPECT_EQ(info->device_id, 0x1020U);
  EXPECT_EQ(info->module_id, 3U);
  EXPECT_EQ(info->dram_page_size, std::uint64_t{768 << 20});
  EXPECT_EQ(info->alloc_page_size, std::uint64_t{640 << 20});
}

// Of which it knows no end: all of what we give is its to write.
TEST_F(thunk, a_later_library_may_fill_all_of_a_structure) {
  const auto longer = [](auto* out, std::size_t known) {
    std::memset(reinterpret_cast<char*>(out) + known, 0xff, sizeof *out - known);
    return 0;
  };
  EXPECT_CALL(library, get_dram_usage(5, _)).WillOnce([&](int, hl::dram_usage* usage) {
    usage->free_bytes = 4096;
    return longer(usage, 16);
  });
  EXPECT_CALL(library, get_open_stats(5, _)).WillOnce([&](int, hl::open_stats* stats) {
    return longer(stats, 24);
  });
  EXPECT_CALL(library, command_submission(5, _, _)).WillOnce([&](int, hl::cs_in*, hl::cs_out* out) {
    out->seq = 77;
    return longer(out, 16);
  });
  EXPECT_EQ(call.memory_usage(5)->free_bytes, 4096U);
  EXPECT_FALSE(*call.in_use(5));
  EXPECT_EQ(*call.submit(5, {}), 77U);
  EXPECT_GE(sizeof(hl::dram_usage), 4 * sizeof(std::uint64_t));
}

TEST_F(thunk, a_device_is_in_use_while_a_compute_context_is_active) {
  EXPECT_CALL(library, get_open_stats(5, _))
      .WillOnce([](int, gaudi::hl::open_stats* stats) {
        stats->is_compute_ctx_active = 1;
        return 0;
      })
      .WillOnce(Return(0))
      .WillOnce(Return(-ENODEV));
  EXPECT_TRUE(*call.in_use(5));
  EXPECT_FALSE(*call.in_use(5));
  EXPECT_EQ(call.in_use(5).code(), -FI_ENODEV);
}

TEST_F(thunk, functions_that_an_old_library_lacks_are_enosys) {
  table.get_open_stats = nullptr;
  table.cs_flush_pci_hbw_writes = nullptr;
  const gaudi::hl::thunk old(table);
  EXPECT_EQ(old.in_use(5).code(), -FI_ENOSYS);
  EXPECT_EQ(old.flush_pci_writes(5).code(), -FI_ENOSYS);
}

TEST_F(thunk, flush_gives_the_drivers_answer) {
  EXPECT_CALL(library, cs_flush_pci_hbw_writes(5))
      .WillOnce(Return(0))
      .WillOnce(Return(-EOPNOTSUPP));
  EXPECT_TRUE(call.flush_pci_writes(5));
  EXPECT_EQ(call.flush_pci_writes(5).code(), -FI_EOPNOTSUPP);
}

TEST_F(thunk, wait_does_not_read_the_status_of_a_failure) {
  EXPECT_CALL(library, wait_for_cs(5, 11, 0, _))
      .WillOnce(DoAll(SetArgPointee<3>(0), Return(-ENODEV)));
  EXPECT_EQ(call.wait(5, 11, 0).code(), -FI_ENODEV);
}

TEST_F(thunk, wait_tells_the_states_apart) {
  const auto wait_with = [&](std::uint32_t status) {
    EXPECT_CALL(library, wait_for_cs(5, 11, 0, _))
        .WillOnce(DoAll(SetArgPointee<3>(status), Return(0)));
    return call.wait(5, 11, 0);
  };
  EXPECT_EQ(*wait_with(0), hl::cs_status::completed);
  EXPECT_EQ(*wait_with(1), hl::cs_status::busy);
  EXPECT_EQ(wait_with(2).code(), -FI_ETIMEDOUT);
  EXPECT_EQ(wait_with(3).code(), -FI_EIO);
  EXPECT_EQ(wait_with(99).code(), -FI_EIO);
}

TEST_F(thunk, submit_sends_one_chunk_and_gives_the_sequence) {
  EXPECT_CALL(library, command_submission(5, _, _))
      .WillOnce([](int, hl::cs_in* in, hl::cs_out* out) {
        EXPECT_EQ(in->num_execute, 1U);
        EXPECT_EQ(in->num_restore, 0U);
        EXPECT_EQ(static_cast<const hl::cs_chunk*>(in->chunks_execute)->cb_handle, 0xabcU);
        out->seq = 77;
        return 0;
      });
  const auto seq = call.submit(5, {.cb_handle = 0xabc});
  ASSERT_TRUE(seq);
  EXPECT_EQ(*seq, 77U);
}

TEST_F(thunk, export_asks_for_the_only_flags_the_library_takes) {
  EXPECT_CALL(library, export_dmabuf(5, 0x1000, 0x2000, 0, O_RDWR | O_CLOEXEC)).WillOnce(Return(8));
  EXPECT_EQ(*call.export_dmabuf(5, 0x1000, 0x2000, 0), 8);
}

TEST_F(thunk, exports_a_physical_address_by_the_plain_function) {
  EXPECT_CALL(library, export_physical(5, 0x20001000, 0x2000, O_RDWR | O_CLOEXEC))
      .WillOnce(Return(8))
      .WillOnce(Return(-EINVAL));
  EXPECT_EQ(*call.export_physical(5, 0x20001000, 0x2000), 8);
  EXPECT_EQ(call.export_physical(5, 0x20001000, 0x2000).code(), -FI_EINVAL);
}

TEST_F(thunk, gives_the_handle_of_a_command_buffer) {
  EXPECT_CALL(library, request_command_buffer(5, 4096, _))
      .WillOnce(DoAll(SetArgPointee<2>(0x7000), Return(0)))
      .WillOnce(Return(-ENOMEM));
  EXPECT_CALL(library, destroy_command_buffer(5, 0x7000)).WillOnce(Return(0));
  EXPECT_EQ(*call.request_commands(5, 4096), 0x7000U);
  EXPECT_EQ(call.request_commands(5, 4096).code(), -FI_ENOMEM);
  EXPECT_TRUE(call.destroy_commands(5, 0x7000));
}

TEST_F(thunk, missing_optional_functions_are_said_to_be_missing) {
  table.device_mapped_memory_export_dmabuf_fd = nullptr;
  table.open_control_by_module_id = nullptr;
  table.device_memory_export_dmabuf_fd = nullptr;
  table.request_command_buffer = nullptr;
  table.destroy_command_buffer = nullptr;
  const hl::thunk old{table};
  EXPECT_EQ(old.export_dmabuf(5, 0x1000, 0x2000, 0).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(old.open_control_by_module_id(1).code(), -FI_ENOSYS);
  EXPECT_EQ(old.export_physical(5, 0x20001000, 0x2000).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(old.request_commands(5, 4096).code(), -FI_ENOSYS);
  EXPECT_EQ(old.destroy_commands(5, 0x7000).code(), -FI_ENOSYS);
}

TEST_F(thunk, an_owned_descriptor_is_closed_once) {
  const auto shared = std::make_shared<const hl::thunk>(table);
  EXPECT_CALL(library, close(21)).Times(1);
  {
    auto owned = hl::device_fd::owned(shared, 21);
    const auto moved = std::move(owned);
    EXPECT_TRUE(moved.is_owned());
  }
}

TEST_F(thunk, a_duplicate_of_a_descriptor_is_closed_and_not_what_it_is_of) {
  const base::scoped_fd applications(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int number = -1;
  {
    const auto own = hl::device_fd::duplicate(base::scoped_fd(::dup(applications.get())));
    number = own.get();
    EXPECT_FALSE(own.is_owned());
    EXPECT_GE(::fcntl(number, F_GETFD), 0);
  }
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  EXPECT_GE(::fcntl(applications.get(), F_GETFD), 0);
}

TEST(thunk_load, a_named_library_that_is_not_there_is_enosys) {
  EXPECT_EQ(hl::thunk::load("/nonexistent/libhl-thunk.so").code(), -FI_ENOSYS);
}

TEST(thunk_load, a_library_without_the_functions_is_enosys) {
  EXPECT_EQ(hl::thunk::load("libc.so.6").code(), -FI_ENOSYS);
}

}  // namespace
}  // namespace gaudi
