(** * The five named curves

    All of them are curves ([named_curves]), so that every general theorem holds of them.
    Wherever one of them has a derivative, it is at least half of the distance from 0 or
    1, whichever is nearer ([named_slopes]); the errors of shares with costs rest on it. *)

From Coq Require Import Reals Lra Lia Arith.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Selection Exponential Derivative Logistic Laplace Sparsemax.
Open Scope R_scope.

(** Two parabolas, from -1 to 0 and from 0 to 1. *)
Definition triangular (t : R) :=
  if Rle_dec t 0 then plus_part (1 + t) ^ 2 / 2 else 1 - plus_part (1 - t) ^ 2 / 2.

(** A formula without cases, from the clip. *)
Lemma triangular_formula t :
  clip (t + 1) * clip (t + 1) * / 2 + (clip t - clip t * clip t * / 2) = triangular t.
Proof.
  unfold triangular, clip, plus_part; destruct (Rle_dec t 0) as [H|H].
  - rewrite (Rmax_left 0 t), (Rmin_right 1 0) by lra; rewrite Rmin_right.
    + replace (t + 1) with (1 + t) by ring; field.
    + apply Rmax_lub; lra.
  - rewrite (Rmax_right 0 (t + 1)), (Rmin_left 1 (t + 1)), (Rmax_right 0 t) by lra.
    destruct (Rle_or_lt t 1) as [H1|H1].
    + rewrite Rmin_right, Rmax_right by lra; field.
    + rewrite Rmin_left, Rmax_left by lra; field.
Qed.

Theorem triangular_curve : curve triangular.
Proof.
  split.
  - intros s t H; unfold triangular.
    assert (Hsq : forall a b, a <= b -> plus_part a ^ 2 <= plus_part b ^ 2).
    { intros a b Hab; unfold plus_part; apply pow_incr; split; [apply Rmax_l|].
      now apply Rle_max_compat_l. }
    assert (H1 : forall a, a <= 1 -> plus_part a ^ 2 <= 1).
    { intros a Ha; specialize (Hsq a 1 Ha); unfold plus_part in *.
      rewrite (Rmax_right 0 1) in Hsq by lra; lra. }
    destruct (Rle_dec s 0) as [Hs|Hs], (Rle_dec t 0) as [Ht|Ht].
    + specialize (Hsq (1 + s) (1 + t) ltac:(lra)); lra.
    + specialize (H1 (1 + s) ltac:(lra)) as Ha; specialize (H1 (1 - t) ltac:(lra)); lra.
    + lra.
    + specialize (Hsq (1 - t) (1 - s) ltac:(lra)); lra.
  - intros t; apply (continuous_ext _ _ _ triangular_formula).
    assert (Hc : continuous clip t) by apply (unbroken clip clip_curve).
    assert (Hc1 : continuous (fun t => clip (t + 1)) t).
    { apply (continuous_comp (fun t => t + 1) clip); [|apply (unbroken clip clip_curve)].
      apply (continuous_plus (fun t : R => t) (fun _ => 1));
        [apply continuous_id|apply continuous_const]. }
    apply (continuous_plus (fun t => clip (t + 1) * clip (t + 1) * / 2)
      (fun t => clip t - clip t * clip t * / 2)).
    + apply (continuous_mult (fun t => clip (t + 1) * clip (t + 1)) (fun _ => / 2));
        [|apply continuous_const].
      now apply (continuous_mult (fun t => clip (t + 1)) (fun t => clip (t + 1))).
    + apply (continuous_minus clip (fun t => clip t * clip t * / 2)); [exact Hc|].
      apply (continuous_mult (fun t => clip t * clip t) (fun _ => / 2));
        [|apply continuous_const].
      now apply (continuous_mult clip clip).
  - apply (is_lim_ext_loc (fun _ => 0)); [|apply is_lim_const].
    exists (- 1); intros t H; unfold triangular, plus_part; destruct (Rle_dec t 0); [|lra].
    rewrite Rmax_left by lra; field.
  - apply (is_lim_ext_loc (fun _ => 1)); [|apply is_lim_const].
    exists 1; intros t H; unfold triangular, plus_part; destruct (Rle_dec t 0); [lra|].
    rewrite Rmax_left by lra; field.
Qed.

(** ["exp"], ["laplace"], ["sigmoid"], ["clip"] and ["triangular"]. *)
Definition named (f : R -> R) :=
  f = clipped \/ f = laplace \/ f = logistic \/ f = clip \/ f = triangular.

Theorem named_curves f : named f -> curve f.
Proof.
  intros [-> | [-> | [-> | [-> | ->]]]].
  - apply clipped_curve.
  - apply laplace_curve.
  - apply logistic_curve.
  - apply clip_curve.
  - apply triangular_curve.
Qed.

(** ** Slopes *)

(** A function that rises at least with the slope [s] on the left has at least this
    derivative, if it has one. *)
Lemma left_slope (f : R -> R) t d s r : is_derive f t d -> 0 < r ->
  (forall h, - r <= h < 0 -> f (t + h) - f t <= s * h) -> s <= d.
Proof.
  intros Hd Hr H; destruct (Rle_or_lt s d) as [Hs|Hs]; [exact Hs|exfalso].
  destruct (derive_increment f t d Hd ((s - d) / 2) ltac:(lra)) as [delta [Hp Hi]].
  set (h := Rmin r delta); assert (Hh : 0 < h) by now apply Rmin_glb_lt.
  assert (Hh1 : h <= r) by apply Rmin_l; assert (Hh2 : h <= delta) by apply Rmin_r.
  specialize (Hi (- h)); rewrite Rabs_Ropp, (Rabs_pos_eq h) in Hi by lra.
  specialize (Hi ltac:(lra)); specialize (H (- h) ltac:(lra)).
  apply Rabs_le_between in Hi.
  assert (0 < (s - d) * h) by (apply Rmult_lt_0_compat; lra); lra.
Qed.

Lemma exp_left h : - 1 <= h < 0 -> exp h - 1 <= / 2 * h.
Proof.
  intros H; pose proof (exp_ineq1_le (- h)) as H1.
  assert (E : exp h * exp (- h) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  pose proof (exp_pos h) as Hp; nra.
Qed.

Definition nearer (f : R -> R) t := Rmin (f t) (1 - f t).

Theorem named_slopes f t d : named f -> is_derive f t d -> nearer f t <= 2 * d.
Proof.
  intros Hn Hd; assert (Hf := named_curves f Hn).
  assert (H0 := slope_nonneg f t d (rising f Hf) Hd).
  unfold nearer; destruct Hn as [E | [E | [E | [E | E]]]]; subst f.
  - destruct (Rle_or_lt 0 t) as [H|H].
    + rewrite clipped_pos, Rmin_right by lra; lra.
    + apply Rle_trans with (clipped t); [apply Rmin_l|].
      rewrite clipped_neg by lra.
      assert (Hs : exp t * / 2 <= d); [|lra].
      apply (left_slope clipped t d (exp t * / 2) 1 Hd ltac:(lra)); intros h Hh.
      rewrite !clipped_neg, exp_plus by lra.
      pose proof (exp_left h Hh); pose proof (exp_pos t); nra.
  - replace d with (Rmin (laplace t) (1 - laplace t)); [|].
    + rewrite laplace_half; pose proof (exp_pos (- Rabs t)); lra.
    + transitivity (Derive laplace t); [symmetry|];
        apply is_derive_unique; [apply laplace_slope|exact Hd].
  - replace d with (logistic t * (1 - logistic t)); [|].
    + pose proof (logistic_unit t) as H; destruct (Rle_or_lt (logistic t) (/ 2)).
      * rewrite Rmin_left by lra; nra.
      * rewrite Rmin_right by lra; nra.
    + transitivity (Derive logistic t); [symmetry|];
        apply is_derive_unique; [apply logistic_slope|exact Hd].
  - unfold clip in *; destruct (Rle_or_lt t 0) as [H|H].
    + rewrite Rmax_left, (Rmin_right 1 0), Rmin_left by lra; lra.
    + rewrite Rmax_right by lra; destruct (Rle_or_lt 1 t) as [H1|H1].
      * rewrite (Rmin_left 1 t), Rmin_right by lra; lra.
      * rewrite (Rmin_right 1 t) by lra.
        assert (Hs : 1 <= d).
        { apply (left_slope clip t d 1 t Hd H); intros h Hh; unfold clip.
          rewrite !Rmax_right, !Rmin_right by lra; lra. }
        apply Rle_trans with t; [apply Rmin_l|lra].
  - destruct (Rle_or_lt t (- 1)) as [H|H];
      [|destruct (Rle_or_lt t 0) as [H1|H1]; [|destruct (Rle_or_lt 1 t) as [H2|H2]]].
    + apply Rle_trans with (triangular t); [apply Rmin_l|].
      unfold triangular, plus_part; destruct (Rle_dec t 0); [|lra].
      rewrite Rmax_left by lra; lra.
    + apply Rle_trans with (triangular t); [apply Rmin_l|].
      assert (Hv : forall s, - 1 <= s <= 0 -> triangular s = (1 + s) ^ 2 / 2).
      { intros s Hs; unfold triangular, plus_part; destruct (Rle_dec s 0); [|lra].
        rewrite Rmax_right by lra; reflexivity. }
      assert (Hs : (1 + t) / 2 <= d).
      { apply (left_slope triangular t d ((1 + t) / 2) (1 + t) Hd ltac:(lra)); intros h Hh.
        rewrite !Hv by lra; nra. }
      rewrite Hv by lra; nra.
    + apply Rle_trans with (1 - triangular t); [apply Rmin_r|].
      unfold triangular, plus_part; destruct (Rle_dec t 0); [lra|].
      rewrite Rmax_left by lra; lra.
    + apply Rle_trans with (1 - triangular t); [apply Rmin_r|].
      assert (Hv : forall s, 0 < s <= 1 -> triangular s = 1 - (1 - s) ^ 2 / 2).
      { intros s Hs; unfold triangular, plus_part; destruct (Rle_dec s 0); [lra|].
        rewrite Rmax_right by lra; reflexivity. }
      assert (Hs : 1 - t <= d).
      { apply (left_slope triangular t d (1 - t) (t / 2) Hd ltac:(lra)); intros h Hh.
        rewrite !Hv by lra; nra. }
      rewrite Hv by lra; nra.
Qed.
