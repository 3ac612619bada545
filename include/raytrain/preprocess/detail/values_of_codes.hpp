// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <raytrain/data/column.hpp>

namespace raytrain::detail {

/// A value for each code of a column of text that rows have: in a table, or in a hash map where there are more texts
/// than rows, as in a slice of a column.
template <class Value>
class ValuesOfCodes {
 public:
  ValuesOfCodes(Column const& texts, Value initial) : initial_{std::move(initial)} {
    auto const codes = texts.categories().size();
    if (codes <= texts.rows()) table_.assign(codes, initial_);
  }

  /// Of a code from 0 on; at first the initial one.
  [[nodiscard]] auto operator[](std::int32_t code) -> Value& {
    if (table_.empty()) return map_.try_emplace(code, initial_).first->second;
    return table_[static_cast<std::size_t>(code)];
  }

 private:
  Value initial_;
  std::vector<Value> table_;
  std::unordered_map<std::int32_t, Value> map_;
};

}  // namespace raytrain::detail
