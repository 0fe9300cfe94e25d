// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace gaudi::common {

/// Where gnuplot is, by PATH. Throws failure, which names the package, where there is none.
std::filesystem::path find_gnuplot();

/// A string constant of gnuplot's language. Line ends become spaces.
std::string gnuplot_string(std::string_view text);

/// An SVG file that gnuplot draws. Throws failure where that is not possible, the sooner the
/// better: the constructor asks for gnuplot and for the right to write the file, before anything is
/// measured for it.
class svg_plot {
 public:
  explicit svg_plot(std::filesystem::path file);
  ~svg_plot();
  svg_plot(const svg_plot&) = delete;
  svg_plot& operator=(const svg_plot&) = delete;

  /// Draws what `script` says, once. The file is replaced as a whole, and stays as it was on
  /// failure.
  void draw(std::string_view script);

 private:
  std::filesystem::path gnuplot_;
  std::filesystem::path file_;
  std::filesystem::path unfinished_;  ///< beside file_
};

}  // namespace gaudi::common
